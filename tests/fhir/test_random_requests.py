"""No request makes the server fail, or show its own code, SQL or paths."""

import asyncio
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import (
    FhirService,
    Store,
)
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.serving import BASE, send_request
from tests.fhir.writes import VITAL_SIGN

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
    "GLU$gt5",
    "$$",
    "a|b|c$1",
    "http://a/b",
]


params = st.lists(
    st.tuples(
        st.sampled_from(NAMES) | st.text(max_size=12),
        st.sampled_from(VALUES) | st.text(max_size=20),
    ),
    max_size=5,
)


paths = st.sampled_from(
    [
        "Observation",
        "Patient",
        "Patient/p1",
        "Patient/p1/Observation",
        "Patient/p1/$everything",
        "metadata",
        "",
        "Observation/_search",
        "Encounter",
        "Location",
        "Medication",
        "../../etc/passwd",
        "Patient/' OR 1=1",
        "Patient/%00",
        "Bundle",
        "$export",
        "Patient/p1/_history",
    ]
) | st.text(max_size=20)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    profile=st.sampled_from(["archqa", "gcp", "hapi"]),
    method=st.sampled_from(["GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD"]),
    path=paths,
    query_params=params,
    raw=st.none() | st.text(max_size=30),
    body=st.sampled_from(
        [b"", b"{", b"[]", b"patient=p1&code=%", b"\xff", json.dumps(VITAL_SIGN).encode()]
    ),
)
def test_no_request_makes_the_server_fail_or_reveal_its_internals(
    whole_ward: Store,
    profile: str,
    method: str,
    path: str,
    query_params: list[tuple[str, str]],
    raw: str | None,
    body: bytes,
) -> None:
    query = (
        raw
        if raw is not None
        else "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in query_params)
    )
    target = f"/fhir/{_quoted(path)}?{_quoted(query) if raw is not None else query}"
    status, text = asyncio.run(
        send_request(
            FhirApplication(FhirService(whole_ward.as_profile(profile), BASE)), method, target, body
        )
    )
    assert status < 500, target
    assert not LEAK.search(text), (target, text)
    if text and status >= 400:
        assert json.loads(text)["resourceType"] == "OperationOutcome"


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe=":/=|,$")


@pytest.fixture(scope="module")
def whole_ward(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(tmp_path_factory.mktemp("whole"), ward_resources())
