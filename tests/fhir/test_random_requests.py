"""No request makes the server fail, or show its own code, SQL or paths.

A thousand requests for each profile; the long test sends ten times as many.
"""

import asyncio
import gzip
import json
import random
import re
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirService, Overlay
from archqa.fhir.server.application import FhirApplication
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.write.writer import WriteMode, Writer
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.serving import BASE
from tests.fhir.writes import MEDICATION_ORDER, REFERRAL, VITAL_SIGN

PROFILES = ["archqa", "gcp", "hapi"]

LEAK = re.compile(
    r"Traceback|sqlite|SELECT |\.py|/tmp|/work|/home|no such (?:table|column)|syntax error",
    re.IGNORECASE,
)


NAMES = [
    "patient",
    "code",
    "date",
    "_id",
    "value-quantity",
    "_count",
    "_offset",
    "_sort",
    "_include",
    "_revinclude",
    "_elements",
    "_summary",
    "_total",
    "_has:Observation:patient:code",
    "_has:Observation:patient:_has:Observation:has-member:code",
    "encounter.part-of.subject:Patient.name",
    "code-value-quantity",
    "combo-code-value-concept",
    "patient:identifier",
    "identifier:of-type",
    "_profile:below",
    "_profile:above",
    "_tag",
    "patient.name",
    "code:text",
    "code:not",
    "status:missing",
    "name",
    "_lastUpdated",
    "_format",
    "_getpages",
    "_page_token",
    "_getpagesoffset",
    "encounter.date",
    "subject:Patient.name",
    "_include",
    "_include:iterate",
    "_revinclude:iterate",
    "_include:recurse",
    "_profile",
    "_tag",
    "_has:Observation:patient:_has:Encounter:patient:status",
    "encounter.patient.name",
    "code-value-quantity",
    "component-code-value-quantity",
    "identifier:of-type",
    "subject:identifier",
    "_type",
    "_since",
    "start",
    "end",
    "max",
    "_outputFormat",
    "_bundletype",
    "_totalMethod",
    "_text",
    "_content",
    "_filter",
    "_list",
    "_contained",
    "",
    ":",
    ".",
    "..",
    "patient:Patient.patient:Patient.name",
]


VALUES = [
    "p1",
    "Patient/p1",
    "GLU",
    "http://x|",
    "|",
    "||",
    "a|b|c",
    "ge2130",
    "2130-01-01T00:00:00+05:00",
    "5.4||mmol/L",
    "1e400",
    "-1",
    "0",
    "9" * 30,
    "*",
    "Observation:*",
    "*:*",
    "Observation:patient:Patient:x",
    "-date,_id",
    ",,,",
    "\\",
    "\\,",
    "'",
    '"',
    "') OR 1=1 --",
    "%",
    "_",
    "\x00",
    "é",
    "\u2028",
    "{}",
    "count",
    "true",
    "x" * 3000,
    "$",
    "1000000",
    "json",
    "application/fhir+xml",
    "2130-02-30",
    "ap2130",
    "eb9999-12-31T23:59:60Z",
    "0001-01-01T00:00:00+14:00",
    "GLU$5.4",
    "GLU$gt5",
    "GLU$gt5.4||mmol/L",
    "$$",
    "a|b|c$1",
    "http://a/b",
    "5.4|http://unitsofmeasure.org|mmol/L",
    "NaN",
    "Patient/p1/_history/1",
    "#p1",
    "urn:uuid:p1",
    "http://localhost:8080/fhir/Patient/p1",
    "Patient?identifier=a|b",
    "Observation:has-member",
    "Patient:organization:Organization",
    "Patient,Observation,Nothing",
    "not-in",
    ",".join(f"c{number}" for number in range(2100)),
]


COMMON_TYPES = ["Observation"] * 6 + [
    "Patient",
    "Encounter",
    "Medication",
    "MedicationRequest",
]
TYPES = st.sampled_from([*COMMON_TYPES * 10, *sorted(R4_RESOURCE_TYPES)])
IDS = st.sampled_from(
    ["p1", "p1", "o1", "h1", "m1", "absent", "a b", "\x00", "é", "x" * 100, "..", "1,2"]
)
OPERATIONS = st.sampled_from(
    [
        "everything",
        "lastn",
        "stats",
        "export",
        "validate",
        "expand",
        "meta",
        "nothing",
        "",
        "$",
        "a b",
    ]
)


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("/".join)


PATHS = st.one_of(
    TYPES,
    st.sampled_from(
        ["Patient/p1", "Patient/p1/$everything", "Patient/p1/Observation", "metadata"]
    ),
    joined(TYPES, IDS),
    joined(TYPES, IDS, TYPES),
    joined(TYPES, st.just("_search")),
    joined(TYPES, IDS, TYPES, st.just("_search")),
    joined(TYPES, IDS, st.just("_history")),
    joined(
        TYPES,
        IDS,
        st.just("_history"),
        st.sampled_from(["1", "2", "0", "-1", "x", "9" * 40]),
    ),
    joined(TYPES, st.just("_history")),
    OPERATIONS.map("${}".format),
    joined(TYPES, OPERATIONS.map("${}".format)),
    joined(TYPES, IDS, OPERATIONS.map("${}".format)),
    st.sampled_from(
        [
            "",
            "metadata",
            "_history",
            "_search",
            ".well-known/smart-configuration",
            "../../etc/passwd",
            "Patient/' OR 1=1",
            "Patient/%00",
            "export-status/1",
            "Patient//p1",
            "Patient&_format=json",
        ]
    ),
    st.text(max_size=20),
)

SENSIBLE = [
    ("patient", "p1"),
    ("subject", "Patient/p1"),
    ("code", "GLU,HR"),
    ("code:not", "http://example.org/labs|GLU"),
    ("code:text", "glu"),
    ("date", "ge2130-01-01"),
    ("date", "ap2130"),
    ("status", "final,finished"),
    ("status:missing", "true"),
    ("value-quantity", "gt5||mmol/L"),
    ("_count", "1"),
    ("_count", "0"),
    ("_count", "1000000"),
    ("_offset", "2"),
    ("_sort", "-date,_id"),
    ("_include", "Observation:encounter"),
    ("_include:iterate", "Encounter:part-of"),
    ("_revinclude", "Observation:has-member"),
    ("_revinclude:iterate", "*"),
    ("_elements", "status,subject"),
    ("_summary", "true"),
    ("_summary", "count"),
    ("_total", "accurate"),
    ("_id", "p1,o1,h1"),
    ("_lastUpdated", "gt2000"),
    ("encounter.class", "IMP"),
    ("patient.name", "stone"),
    ("_has:Observation:patient:code", "GLU"),
    ("name", "stone"),
    ("_getpages", "T2JzZXJ2YXRpb24_cGF0aWVudD1wMQ"),
    ("_page_token", "b2Zmc2V0OjI"),
]
"""Parameters that answer something: what fails behind the checks of a search is seen by these."""

QUERIES = st.lists(st.sampled_from(SENSIBLE), max_size=3) | st.lists(
    st.sampled_from(SENSIBLE)
    | st.tuples(
        st.sampled_from(NAMES) | st.text(max_size=12),
        st.sampled_from(VALUES) | st.text(max_size=20),
    ),
    max_size=5,
)

HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "accept",
            "accept-encoding",
            "content-type",
            "content-encoding",
            "content-length",
            "prefer",
            "if-none-match",
            "if-match",
            "if-modified-since",
            "if-none-exist",
            "range",
            "origin",
            "cookie",
            "authorization",
            "x-archqa-who",
            "x-http-method-override",
        ]
    ),
    st.sampled_from(
        [
            "application/fhir+json",
            "application/json",
            "application/fhir+xml",
            "text/turtle;q=1, */*;q=0.1",
            "application/x-www-form-urlencoded",
            "text/plain",
            "*/*;q=,,;",
            "gzip",
            "gzip;q=0, br",
            "handling=strict",
            "handling=lenient, return=minimal",
            "return=OperationOutcome",
            "respond-async",
            'W/"1"',
            "*",
            '"',
            "Sat, 29 Oct 1994 19:43:31 GMT",
            "yesterday",
            "identifier=http://example.org/mrn|MRN-p1",
            "identifier=%",
            "bytes=0-",
            "bytes=9-1",
            "http://evil.example",
            "Bearer x",
            "-1",
            "9" * 30,
            "\xe9\xff",
            "x" * 5000,
        ]
    )
    | st.text(st.characters(max_codepoint=255), max_size=10),
    max_size=4,
)


def parameters_of(*values: dict[str, Any]) -> dict[str, Any]:
    return {"resourceType": "Parameters", "parameter": list(values)}


def bundle_of(kind: str, *entries: Any) -> dict[str, Any]:
    return {"resourceType": "Bundle", "type": kind, "entry": list(entries)}


BODIES: list[Any] = [
    VITAL_SIGN,
    MEDICATION_ORDER,
    REFERRAL,
    {**VITAL_SIGN, "subject": {"reference": ["Patient/p1"]}},
    {**VITAL_SIGN, "code": "GLU", "category": {}, "status": None},
    {**VITAL_SIGN, "effectiveDateTime": {"x": []}, "valueQuantity": "high"},
    {**VITAL_SIGN, "id": 7, "meta": []},
    {**VITAL_SIGN, "contained": [VITAL_SIGN, None, 3]},
    {"resourceType": "Patient"},
    {"resourceType": ["Patient"]},
    {"resourceType": "Nothing"},
    parameters_of(
        {"name": "max", "valueInteger": 2}, {"name": "patient", "valueString": "p1"}
    ),
    parameters_of({"name": "resource", "resource": VITAL_SIGN}),
    parameters_of({"name": "start", "valueDate": "x"}, {"valueCode": 1}, {}),
    {"resourceType": "Parameters", "parameter": {"name": 1}},
    bundle_of(
        "batch", {"request": {"method": "GET", "url": "Observation?_count=1000000"}}
    ),
    bundle_of(
        "batch", {"request": {"method": "GET", "url": "Patient/p1/$everything"}}, {}, 1
    ),
    bundle_of(
        "transaction", {"resource": VITAL_SIGN, "request": {"method": "POST", "url": 1}}
    ),
    bundle_of(
        "transaction",
        {
            "fullUrl": "urn:uuid:1",
            "resource": {"resourceType": "Patient"},
            "request": {"method": "PUT", "url": "Patient/p9", "ifNoneExist": "%"},
        },
        {"request": {"method": "DELETE", "url": "Patient/p1"}},
    ),
    bundle_of("history"),
    {"resourceType": "Bundle", "type": {}, "entry": {}},
    [],
    1,
    None,
    "text",
]

BODY_TEXTS = st.one_of(
    st.sampled_from([json.dumps(body).encode() for body in BODIES]),
    st.sampled_from(
        [
            b"",
            b"{",
            b"[" * 5000,
            b'{"a":' * 100 + b"1" + b"}" * 100,
            b'{"a": 1e999}',
            b'{"a": NaN}',
            b'{"resourceType": "\\ud800"}',
            b'{"a": "\\u0000"}',
            b'{"a": ' + b"9" * 5000 + b"}",
            b"patient=p1&code=%",
            b"patient=p1&_count=1000000",
            b"&&==&%00=%ff",
            b"\xff",
            b"\xef\xbb\xbf{}",
            b"\x1f\x8b\x08",
        ]
    ),
    st.binary(max_size=30),
)


class Request(NamedTuple):
    """One request as it comes over HTTP."""

    method: str
    target: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


METHODS = [
    "GET",
    "GET",
    "POST",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "PATCH",
    "OPTIONS",
    "TRACE",
]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any request: mostly what resembles a real one, sometimes anything."""
    method = draw(st.sampled_from(METHODS))
    path = _quoted(draw(PATHS))
    if draw(st.integers(0, 5)):
        query = "&".join(
            f"{_quoted(name)}={_quoted(value)}" for name, value in draw(QUERIES)
        )
    else:
        query = _quoted(draw(st.text(max_size=30)))
    headers = [(b"host", b"localhost:8080")]
    if method == "POST" and draw(st.integers(0, 5)):
        is_search = path.endswith("_search")
        form = b"application/x-www-form-urlencoded"
        headers.append(
            (b"content-type", form if is_search else b"application/fhir+json")
        )
    more_headers = draw(st.just({}) | HEADERS)
    for name, value in more_headers.items():
        headers.append((name.encode(), value.encode("latin-1")))
    return Request(
        method, f"/fhir/{path}".encode(), query.encode(), headers, draw(BODY_TEXTS)
    )


PLAUSIBLE_PATHS = [
    *["Observation"] * 6,
    "Encounter",
    "MedicationRequest",
    "Patient",
    "Patient/p1",
    "Patient/p1/Observation",
    "Patient/p1/$everything",
    "Observation/$lastn",
    "Encounter/h1/$everything",
    "Observation/o1/_history/1",
]


def plausible_request(chance: random.Random) -> Request:
    """A search or a read that is mostly right, with something odd in one of three."""
    path = chance.choice(PLAUSIBLE_PATHS)
    pairs = chance.sample(SENSIBLE, chance.randint(0, 3))
    if chance.random() < 0.3:
        name, value = chance.choice(NAMES), chance.choice(VALUES)
        pairs.append(
            (name, value)
            if chance.random() < 0.5
            else ((pairs or SENSIBLE)[0][0], value)
        )
    query = "&".join(
        f"{_quoted(name)}={_quoted(value)}" for name, value in pairs
    ).encode()
    headers = [(b"host", b"localhost:8080"), (b"prefer", b"handling=lenient")]
    if chance.random() < 0.2 and "/" not in path:
        headers.append((b"content-type", b"application/x-www-form-urlencoded"))
        return Request("POST", f"/fhir/{path}/_search".encode(), b"", headers, query)
    method = chance.choice(["GET", "GET", "GET", "HEAD"])
    return Request(method, f"/fhir/{path}".encode(), query, headers, b"")


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe=":/=|,$&")


async def answer(application: FhirApplication, request: Request) -> tuple[int, str]:
    """Return status and body of the reply to a request as uvicorn passes it on."""
    scope = {
        "type": "http",
        "method": request.method,
        "path": request.target.decode("latin-1"),
        "raw_path": request.target,
        "query_string": request.query,
        "headers": request.headers,
    }
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.body}

    async def send(message: Any) -> None:
        messages.append(message)

    await application(scope, receive, send)
    start, *parts = messages
    assert not parts[-1].get("more_body"), "the reply has no end"
    content = b"".join(part.get("body", b"") for part in parts)
    encoding = dict(start["headers"]).get(b"content-encoding")
    if encoding == b"gzip":
        content = gzip.decompress(content)
    return start["status"], content.decode()


def check(overlay: Overlay, mode: WriteMode, request: Request) -> int:
    """Check that the reply is no failure and shows nothing of the inside; return its status."""
    service = FhirService(overlay, BASE, Writer(overlay, mode))
    status, text = asyncio.run(answer(FhirApplication(service), request))
    if request.method not in {"GET", "HEAD"}:
        overlay.reset()
    assert status < 500 or _says_not_implemented(status, text), (status, text)
    assert not LEAK.search(text), text
    if text and status >= 400:
        outcome = json.loads(text)
        assert outcome["resourceType"] == "OperationOutcome"
        assert outcome["issue"]
    return status


def _says_not_implemented(status: int, text: str) -> bool:
    """501 is a foreseen answer (http.html): it has an OperationOutcome that says so."""
    return status == 501 and "not-supported" in text


@pytest.fixture(scope="module")
def overlays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Overlay]:
    """A record with the ward in it, as each profile serves it."""
    store = build_store(tmp_path_factory.mktemp("whole"), ward_resources())
    return {profile: Overlay.over(store.as_profile(profile)) for profile in PROFILES}


@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(mode=st.sampled_from(list(WriteMode)), request=requests())
def test_no_request_makes_the_server_fail_or_reveal_its_internals(
    overlays: dict[str, Overlay], profile: str, mode: WriteMode, request: Request
) -> None:
    check(overlays[profile], mode, request)


@pytest.mark.parametrize("profile", PROFILES)
def test_no_plausible_request_makes_the_server_fail(
    overlays: dict[str, Overlay], profile: str
) -> None:
    answered = 0
    for seed in range(1000):
        request = plausible_request(random.Random(seed))
        status = check(overlays[profile], WriteMode.READ_ONLY, request)
        answered += status == 200
    assert answered > 300


@pytest.mark.long
@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=10_000, suppress_health_check=list(HealthCheck))
@given(mode=st.sampled_from(list(WriteMode)), request=requests())
def test_none_of_ten_thousand_requests_makes_the_server_fail(
    overlays: dict[str, Overlay], profile: str, mode: WriteMode, request: Request
) -> None:
    check(overlays[profile], mode, request)
