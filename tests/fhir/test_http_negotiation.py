"""HTTP: methods, media types and compressed bodies."""

import gzip
import json
import tracemalloc
import zlib

import pytest

from archqa.fhir import FhirService, Overlay, Store, WriteMode, Writer
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, numbered_observations
from tests.fhir.serving import BASE, ask
from tests.fhir.writes import VITAL_SIGN

PROFILES = ["archqa", "hapi", "gcp"]
FORM = ("content-type", "application/x-www-form-urlencoded")
JSON = ("content-type", "application/fhir+json")


@pytest.fixture
def service(ward_store: Store) -> FhirService:
    return FhirService(ward_store, BASE)


ABSENT = [
    *(
        "Observation/$lastn",
        "Observation/$stats",
        "Patient/$export",
        "$export",
        "$convert",
    ),
    *(
        "DocumentReference/$docref",
        "Patient/p1/$summary",
        "Patient/p1/$x y",
        "Patient/p1/$",
    ),
    *("Group/g/$export", "Observation/$validate", "Patient/p1/$validate", "$validate"),
]
ELSEWHERE = [
    "Patient/$everything",
    "Location/w1/$everything",
    "Patient/p1/Condition/$everything",
]


@pytest.mark.parametrize("url", [*ABSENT, *ELSEWHERE])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_an_absent_operation_is_not_supported(
    service: FhirService, url: str, method: str
) -> None:
    reply = service.handle(method, url)
    (issue,) = reply.json()["issue"]
    assert (reply.status, issue["code"]) == (404, "not-supported")
    assert "$everything" in issue["diagnostics"]


@pytest.mark.parametrize(
    ("method", "url", "allowed"),
    [
        *(("PUT", "metadata", "GET, HEAD"), ("POST", "metadata", "GET, HEAD")),
        *(("GET", "Observation/_search", "POST"), ("GET", "_search", "POST")),
        *(
            ("HEAD", "Patient/p1/Observation/_search", "POST"),
            ("PATCH", "", "GET, HEAD, POST"),
        ),
        *(
            ("DELETE", "Patient", "GET, HEAD, POST"),
            ("OPTIONS", "Patient", "GET, HEAD, POST"),
        ),
        *(
            ("POST", "Patient/p1", "GET, HEAD"),
            ("DELETE", "Patient/p1/Condition", "GET, HEAD"),
        ),
        ("DELETE", "Patient/p1/$everything", "GET, HEAD"),
    ],
)
def test_a_method_that_a_url_does_not_answer_gets_those_that_it_does(
    service: FhirService, method: str, url: str, allowed: str
) -> None:
    reply = service.handle(method, url)
    assert reply.status == 405
    assert set(allowed.split(", ")) <= set(reply.headers["allow"].split(", "))
    assert method not in reply.headers["allow"].split(", ")


async def test_a_post_to_a_read_url_is_refused_whatever_its_type(
    service: FhirService,
) -> None:
    application = FhirApplication(service)
    for headers in ([], [FORM], [JSON]):
        reply = await ask(application, "POST", "/fhir/Patient/p1", b"{}", headers)
        assert reply.status == 405
    assert (
        await ask(application, "POST", "/fhir/Patient", b"{}", [FORM])
    ).status == 415


async def test_a_head_has_the_headers_of_a_get_and_no_body(
    service: FhirService,
) -> None:
    application = FhirApplication(service)
    for headers in ([], [("accept-encoding", "gzip")]):
        get = await ask(application, "GET", "/fhir/Patient", headers=headers)
        head = await ask(application, "HEAD", "/fhir/Patient", headers=headers)
        assert head.body == b""
        assert head.headers.keys() == get.headers.keys()
        assert int(get.headers["content-length"]) == len(get.body)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        *(("", "application/fhir+json"), ("*/*", "application/fhir+json")),
        *(
            ("application/json", "application/json"),
            ("application/*", "application/fhir+json"),
        ),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "application/fhir+json"),
        ("application/fhir+xml, application/fhir+json;q=0.1", "application/fhir+json"),
        ("application/json, application/fhir+json;q=0.9", "application/json"),
        ("application/fhir+json;q=0, */*;q=0.2", "application/json"),
        ("application/fhir+json; fhirVersion=4.0", "application/fhir+json"),
    ],
)
def test_the_media_type_is_the_best_that_the_client_accepts(
    ward_store: Store, profile: str, accept: str, media_type: str
) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    for url in ("Patient/p1", "Patient", "metadata", "Patient/p1/$everything"):
        reply = service.handle("GET", url, headers={"accept": accept})
        assert reply.status == 200
        assert reply.headers["content-type"].partition(";")[0] == media_type


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "accept",
    [
        *(
            "application/fhir+xml",
            "text/turtle",
            "text/html",
            "application/fhir+json;q=0",
        ),
        *(
            "*/*;q=0",
            "application/fhir+json;q=0, application/json;q=0, text/json;q=0, */*",
        ),
        *("application/fhir+json;fhirVersion=3.0", "application/json;q=2", "nonsense"),
    ],
)
def test_a_client_that_accepts_no_json_is_told_so(
    ward_store: Store, profile: str, accept: str
) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    for url in ("Patient/p1", "Patient", "metadata"):
        reply = service.handle("GET", url, headers={"accept": accept})
        assert (reply.status, reply.json()["resourceType"]) == (406, "OperationOutcome")
    named = service.handle("GET", "Patient/p1?_format=json", headers={"accept": accept})
    assert named.status == 200


@pytest.mark.parametrize("profile", PROFILES)
def test_formats_other_than_json_are_not_acceptable_on_any_url(
    ward_store: Store, profile: str
) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    for text in (
        "xml",
        "ttl",
        "text/turtle",
        "application/fhir+xml",
        "application/fhir%2Bxml",
    ):
        for url in ("Patient/p1", "Patient", "metadata", "Patient/p1/$everything"):
            assert service.get(f"{url}?_format={text}").status == 406
        assert (
            service.handle("POST", "Patient/_search", f"_format={text}").status == 406
        )
    for text in (
        "json",
        "application/json",
        "application/fhir+json",
        "application/fhir%2Bjson",
    ):
        assert service.get(f"Patient/p1?_format={text}").status == 200
        assert service.get(f"Patient?_format={text};fhirVersion=4.0").status == 200


async def test_long_replies_are_compressed_for_those_who_take_gzip(
    service: FhirService,
) -> None:
    application = FhirApplication(service)
    target = "/fhir/metadata"
    plain = await ask(application, "GET", target)
    assert "Accept-Encoding" in plain.headers["vary"]
    for accepted in ("gzip", "deflate, gzip;q=0.5", "*", "x-gzip"):
        reply = await ask(
            application, "GET", target, headers=[("accept-encoding", accepted)]
        )
        assert reply.headers["content-encoding"] == "gzip"
        assert (
            int(reply.headers["content-length"])
            == len(reply.body)
            < len(plain.body) / 2
        )
        assert gzip.decompress(reply.body) == plain.body
    for refused in ("", "br", "gzip;q=0, *", "gzip;q=0.2, identity", "gzip;q=x"):
        reply = await ask(
            application, "GET", target, headers=[("accept-encoding", refused)]
        )
        assert "content-encoding" not in reply.headers
        assert reply.body == plain.body


async def test_a_compressed_search_or_write_is_read(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        application = FhirApplication(service)
        coded = ("content-encoding", "gzip")
        form = gzip.compress(b"patient=p1&code=GLU", mtime=0)
        reply = await ask(
            application, "POST", "/fhir/Observation/_search", form, [FORM, coded]
        )
        assert json.loads(reply.body)["total"] == 2
        write = gzip.compress(json.dumps(VITAL_SIGN).encode())
        assert (
            await ask(application, "POST", "/fhir/Observation", write, [JSON, coded])
        ).status == 201


async def test_a_small_body_that_unpacks_to_a_large_one_stops_at_the_limit(
    service: FhirService,
) -> None:
    application = FhirApplication(service, max_request_bytes=2**16)
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = compressor.compress(b"0" * 2**28) + compressor.flush()
    for body in (bomb, gzip.compress(b"0" * (2**16 + 1))):
        tracemalloc.start()
        headers = [JSON, ("content-encoding", "gzip")]
        reply = await ask(application, "POST", "/fhir/Patient", body[: 2**16], headers)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert reply.status == 413
        assert peak < 2**22


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        *(
            ("br", b"x", 415),
            ("deflate", zlib.compress(b"a=b"), 415),
            ("gzip", b"a=b", 400),
        ),
        *(("gzip", gzip.compress(b"code=GLU", mtime=0)[:-4], 400), ("gzip", b"", 400)),
        *(("gzip", gzip.compress(b"a=b", mtime=0) * 2, 400), ("gzip, gzip", b"x", 415)),
        ("identity", b"code=GLU", 200),
    ],
)
async def test_a_body_that_cannot_be_unpacked_whole_is_refused(
    service: FhirService, coding: str, body: bytes, status: int
) -> None:
    headers = [
        FORM,
        ("content-encoding", coding),
        ("content-length", str(len(body) or 1)),
    ]
    target = "/fhir/Observation/_search"
    reply = await ask(FhirApplication(service), "POST", target, body, headers)
    assert reply.status == status
    if status == 415:
        assert reply.headers["accept-encoding"] == "gzip"


async def test_preferences_in_two_headers_both_count(service: FhirService) -> None:
    headers = [("prefer", "return=minimal"), ("prefer", "handling=lenient")]
    reply = await ask(
        FhirApplication(service), "GET", "/fhir/Patient?x=1", headers=headers
    )
    assert reply.status == 200


async def test_another_fhir_version_of_a_body_is_refused(service: FhirService) -> None:
    for version, status in (("3.0", 415), ("4.0", 403)):
        header = ("content-type", f"application/fhir+json; fhirVersion={version}")
        body = json.dumps(VITAL_SIGN).encode()
        reply = await ask(
            FhirApplication(service), "POST", "/fhir/Observation", body, [header]
        )
        assert reply.status == status


async def test_paging_works_with_gzip_and_tokens(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = build_store(tmp_path_factory.mktemp("many"), numbered_observations(30))
    application = FhirApplication(FhirService(store, BASE), token="secret")
    headers = [("authorization", "Bearer secret"), ("accept-encoding", "gzip")]
    reply = await ask(
        application, "GET", "/fhir/Observation?_count=20", headers=headers
    )
    assert len(json.loads(gzip.decompress(reply.body))["entry"]) == 20
