"""Requests that no client should send: 4xx and one sentence, never 500, never a long wait."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirService, Overlay, Store, WriteMode, Writer
from archqa.fhir.server.application import FhirApplication
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.serving import BASE, post_scope, send_request
from tests.fhir.writes import VITAL_SIGN

MEMBERS = [
    "reference",
    "subject",
    "code",
    "coding",
    "note",
    "text",
    "meta",
    "valueQuantity",
    "id",
]
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE"])
URLS = st.sampled_from(
    ["", "_search", "Observation", "Observation/x", "$everything", "\ud800", "?"]
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return build_store(tmp_path / "ward", ward_resources())


async def refused(
    application: FhirApplication,
    method: str,
    target: str,
    body: bytes = b"",
    **headers: str,
) -> tuple[int, str]:
    """Send a request that must be refused; return its status and the sentence."""
    status, text = await send_request(application, method, target, body, **headers)
    outcome = json.loads(text)
    assert outcome["resourceType"] == "OperationOutcome"
    assert 400 <= status < 500, text
    (issue,) = outcome["issue"]
    assert len(issue["diagnostics"]) < 200
    return status, issue["diagnostics"]


def deep(depth: int, kind: str = "[]") -> str:
    opening, closing = ('{"x":', "}") if kind == "{}" else ("[", "]")
    return opening * depth + "1" + closing * depth


@pytest.mark.parametrize("place", ["Observation/", "", "Patient/p1/Observation/"])
async def test_search_by_that_name_is_for_post_only(store: Store, place: str) -> None:
    application = FhirApplication(FhirService(store, BASE))
    status, text = await refused(application, "GET", f"/fhir/{place}_search?_id=p1")
    assert status == 405
    assert "POST" in text


async def test_a_search_by_post_of_no_type_names_what_is_missing(store: Store) -> None:
    application = FhirApplication(FhirService(store, BASE))
    status, text = await refused(application, "POST", "/fhir/_search", b"_id=p1")
    assert status == 400
    assert "resource type" in text


BAD_MEMBERS = {
    "900 arrays": '"x": ' + deep(900),
    "900 objects": '"x": ' + deep(900, "{}"),
    "65 arrays": '"x": ' + deep(65),
    "200,000 arrays": '"x": ' + "[" * 200_000,
    "too large a number": '"x": 1e400',
    "too large an integer": f'"x": {10**400}',
    "an integer of 5,000 digits": '"x": ' + "9" * 5000,
    "no number": '"x": NaN',
    "NUL": '"x": "\\u0000"',
    "raw NUL": '"x": "\x00"',
    "half a surrogate pair": '"x": "\\ud800"',
    "half a surrogate pair as a name": '"\\ud800": 1',
}


@pytest.mark.parametrize("member", BAD_MEMBERS.values(), ids=BAD_MEMBERS)
@pytest.mark.parametrize(
    "mode", [WriteMode.APPLY, WriteMode.VALIDATE, WriteMode.RECORD]
)
async def test_a_body_with_a_member_that_no_record_can_hold_is_refused(
    store: Store, mode: WriteMode, member: str
) -> None:
    resource = json.dumps(VITAL_SIGN)[:-1] + f", {member}}}"
    request = '{"method": "POST", "url": "Observation"}'
    entry = f'{{"request": {request}, "resource": {resource}}}'
    with Overlay.over(store) as overlay:
        application = FhirApplication(FhirService(overlay, BASE, Writer(overlay, mode)))
        assert (
            await refused(application, "POST", "/fhir/Observation", resource.encode())
        )[0] == 400
        for kind in ("batch", "transaction"):
            bundle = (
                f'{{"resourceType": "Bundle", "type": "{kind}", "entry": [{entry}]}}'
            )
            assert (await refused(application, "POST", "/fhir", bundle.encode()))[
                0
            ] == 400
        assert overlay.added() == []


async def test_a_body_as_deep_as_allowed_is_stored_and_read(store: Store) -> None:
    resource = json.dumps(VITAL_SIGN)[:-1] + f', "x": {deep(62)}}}'
    with Overlay.over(store) as overlay:
        application = FhirApplication(
            FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        )
        status, _ = await send_request(
            application, "POST", "/fhir/Observation", resource.encode()
        )
        assert status == 201
        status, _ = await send_request(
            application, "GET", "/fhir/Observation?_elements=code"
        )
        assert status == 200


@pytest.mark.parametrize(
    "query",
    [
        "name=%00", "_id=a%00b", "%00=a", "value-quantity=1e400", "value-quantity=-1e999||mg",
        "_count=" + "9" * 400, "_offset=1e400", "_sort=%00", "date=" + "9" * 400, "name=%ff", "name=%ed%a0%80",
    ],
)  # fmt: skip
async def test_values_that_nothing_can_equal_are_refused(
    store: Store, query: str
) -> None:
    application = FhirApplication(FhirService(store, BASE))
    resource_type = "Patient" if "name" in query else "Observation"
    assert (await refused(application, "GET", f"/fhir/{resource_type}?{query}"))[
        0
    ] == 400
    body = query.encode()
    assert (await refused(application, "POST", f"/fhir/{resource_type}/_search", body))[
        0
    ] == 400


async def test_a_path_with_nul_is_refused(store: Store) -> None:
    application = FhirApplication(FhirService(store, BASE))
    assert (await refused(application, "GET", "/fhir/Patient/%00"))[0] == 400


async def test_a_search_has_at_most_200_parameters(store: Store) -> None:
    application = FhirApplication(FhirService(store, BASE))
    most = "&".join(["_id=p1"] * 200)
    assert (await send_request(application, "GET", f"/fhir/Patient?{most}"))[0] == 200
    status, text = await refused(application, "GET", f"/fhir/Patient?{most}&_id=p1")
    assert status == 400
    assert "200 parameters" in text


@pytest.mark.parametrize(
    "query",
    [
        "&".join(["date=" + ",".join(["ne1999", "2000"] * 90)] * 100),
        "&".join(["subject:Patient.birthdate=" + ",".join(["2000"] * 180)] * 100),
        "&".join(["code:text=" + ",".join(["abc"] * 180)] * 100),
        "&".join(["code=" + ",".join(["http://x|"] * 180)] * 100),
        "_sort=" + ",".join(["date"] * 10_000),
    ],
    ids=["dates", "chained dates", "texts", "systems", "sort keys"],
)
async def test_a_search_that_takes_minutes_to_compile_is_refused_at_once(
    store: Store, query: str
) -> None:
    application = FhirApplication(FhirService(store, BASE))
    body = query.encode()
    start = time.process_time()
    assert (await refused(application, "POST", "/fhir/Observation/_search", body))[
        0
    ] == 400
    assert time.process_time() - start < 1.5


async def test_a_search_compares_with_1000_values_but_with_more_codes_and_ids(
    store: Store,
) -> None:
    application = FhirApplication(FhirService(store, BASE))
    dates = "&".join(["date=" + ",".join(["ge1999"] * 200)] * 5)
    for query in (
        dates,
        "code=" + ",".join(["GLU"] * 2000),
        "_id=" + ",".join(["o1"] * 2000),
    ):
        body = query.encode()
        target = "/fhir/Observation/_search"
        status, _ = await send_request(application, "POST", target, body)
        assert status == 200
    await refused(
        application, "POST", "/fhir/Observation/_search", f"{dates}&date=1".encode()
    )


async def test_a_posted_search_is_no_longer_than_a_url_and_quickly_refused(
    store: Store,
) -> None:
    application = FhirApplication(FhirService(store, BASE))
    bodies = (b"a&" * 4_000_000, b"_id=" + b"x" * 8_000_000)
    start = time.process_time()
    for body in bodies:
        assert (await refused(application, "POST", "/fhir/Patient/_search", body))[
            0
        ] == 414
    assert (
        await send_request(application, "GET", "/fhir/Patient?name=" + "x" * 190_000)
    )[0] == 200
    assert time.process_time() - start < 2


async def test_a_bundle_has_at_most_5000_requests(store: Store) -> None:
    application = FhirApplication(FhirService(store, BASE))
    entry = {"request": {"method": "GET", "url": "Patient/none"}}
    bundle: dict[str, Any] = {
        "resourceType": "Bundle",
        "type": "batch",
        "entry": [entry] * 5001,
    }
    body = json.dumps(bundle).encode()
    status, text = await refused(application, "POST", "/fhir", body)
    assert status == 413
    assert "5000" in text


async def test_a_body_declared_too_long_is_refused_before_it_is_sent(
    store: Store,
) -> None:
    application = FhirApplication(FhirService(store, BASE))
    headers = {"content-length": str(2**24 + 1)}
    assert (await refused(application, "POST", "/fhir/Observation", b"", **headers))[
        0
    ] == 413
    for length in ("abc", "-1", "9" * 4000, "٣"):
        status, _ = await send_request(
            application,
            "POST",
            "/fhir/Patient/_search",
            b"_id=p1",
            **{"content-length": length},
        )
        assert status == 200, "uvicorn has counted the bytes already"


async def test_bodies_of_slow_clients_do_not_fill_the_memory(store: Store) -> None:
    application = FhirApplication(FhirService(store, BASE), max_request_bytes=1000)
    clients = [asyncio.create_task(_send_slowly(application)) for _ in range(20)]
    await asyncio.sleep(0.05)
    status, text = await send_request(
        application, "POST", "/fhir/Observation", b"x" * 900
    )
    assert status == 503
    assert json.loads(text)["issue"][0]["code"] == "throttled"
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    status, _ = await send_request(application, "POST", "/fhir/Observation", b"x" * 900)
    assert status == 403, "there is room again"


async def _send_slowly(application: FhirApplication) -> None:
    parts = [{"type": "http.request", "body": b"x" * 900, "more_body": True}]

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.sleep(60)
        return parts.pop()

    async def send(_: Any) -> None:
        pass

    scope = post_scope("/fhir/Observation")
    await application(scope, receive, send)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    resource=json_values,
    request=json_values | st.fixed_dictionaries({"method": METHODS, "url": URLS}),
    bundle_type=st.sampled_from(["batch", "transaction"]),
    full_url=json_values,
)
def test_no_bundle_makes_the_server_fail(
    overlay: Overlay, resource: Any, request: Any, bundle_type: str, full_url: Any
) -> None:
    if isinstance(resource, dict):
        resource = {**VITAL_SIGN, **resource}
    entry = {"request": request, "resource": resource, "fullUrl": full_url}
    bundle = {"resourceType": "Bundle", "type": bundle_type, "entry": [entry, resource]}
    service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
    application = FhirApplication(service)
    for target, body in (("/fhir", bundle), ("/fhir/Observation", resource)):
        encoded = json.dumps(body).encode()
        status, text = asyncio.run(send_request(application, "POST", target, encoded))
        assert status < 500, text
        for reply in json.loads(text).get("entry") or ():
            assert reply["response"]["status"] < "500", text


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    store = build_store(tmp_path_factory.mktemp("overlay"), ward_resources())
    with Overlay.over(store) as overlay:
        yield overlay
