"""The server: what it answers, to whom, and what it never shows. And the client, against it."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import stamina
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.errors import AuthenticationFailed, CallerError, InputError, ServerUnavailable
from archqa.fhir import (
    FhirClient,
    FhirError,
    FhirService,
    Overlay,
    Record,
    Store,
    WriteMode,
    Writer,
    build_schema_card,
    connect,
    lookup,
)
from archqa.fhir.client.smart import ClientCredentials
from archqa.fhir.connection import TOKEN_ENV_VAR
from archqa.fhir.server.application import FhirApplication, is_loopback, serve
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.test_writing import VITAL

BASE = "http://localhost:8080/fhir"


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    stamina.set_testing(True, attempts=3)
    yield
    stamina.set_testing(False)


def client_of(service: FhirService, **options: Any) -> FhirClient:
    """A client whose requests go straight to a service."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        url = str(request.url).removeprefix(service.base).lstrip("/")
        reply = service.handle(request.method, url, request.content.decode(), dict(request.headers))
        return httpx2.Response(
            reply.status, headers=dict(reply.headers), content=reply.body.encode()
        )

    return FhirClient(service.base, transport=httpx2.MockTransport(answer), **options)


def everything_next(service: FhirService, url: str) -> list[str]:
    """The ids on all pages, by the links."""
    found: list[str] = []
    while url:
        bundle = service.get(url).json()
        found += [entry["resource"]["id"] for entry in bundle.get("entry", [])]
        links = {link["relation"]: link["url"] for link in bundle["link"]}
        url = links.get("next", "")
    return found


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
def test_links_lead_through_all_pages(ward_store: Store, profile: str) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    assert everything_next(service, "Observation?patient=p1&_count=2") == [
        "o1",
        "o2",
        "o3",
        "o5",
        "o6",
    ]
    assert (
        len(everything_next(service, "Patient/p1/$everything?_count=3"))
        == len(ward_resources()) - 5
    )


def test_a_searchset_has_the_shape_of_hapis(ward_store: Store) -> None:
    service = FhirService(ward_store.as_profile("hapi"), BASE)
    reply = service.get("Observation?patient=p1&_count=2&_format=json")
    bundle = reply.json()
    assert reply.headers["content-type"] == "application/fhir+json"
    assert list(bundle) == ["resourceType", "id", "meta", "type", "link", "entry"]
    assert re.fullmatch(
        re.escape(BASE)
        + r"\?_getpages=[\w=-]+&_getpagesoffset=2&_count=2&_format=json&_pretty=true&_bundletype=searchset",
        bundle["link"][1]["url"],
    )
    assert bundle["entry"][0]["fullUrl"] == f"{BASE}/Observation/o1"
    assert bundle["entry"][0]["search"] == {"mode": "match"}
    empty = service.get("Observation?patient=p1&code=absent").json()
    assert empty["total"] == 0
    assert "entry" not in empty


def test_prefer_handling_strict_is_honoured(ward_store: Store) -> None:
    service = FhirService(ward_store.as_profile("gcp"), BASE)
    assert service.get("Observation?colour=red").status == 200
    assert (
        service.handle(
            "GET", "Observation?colour=red", headers={"prefer": "handling=strict"}
        ).status
        == 400
    )


def test_a_read_gives_the_text_and_errors_are_outcomes(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    assert service.get(f"{BASE}/Patient/p1").body == ward_store.text("Patient", "p1")
    assert service.get("Patient/p1&_format=json").status == 200
    for url, status in (
        ("Patient/absent", 404),
        ("Foo/1", 404),
        ("Observation?date=x", 400),
        ("", 400),
        ("?_getpages=x", 410),
    ):
        reply = service.get(url)
        assert (reply.status, reply.json()["resourceType"]) == (status, "OperationOutcome")
    assert service.handle("DELETE", "Patient/p1").status == 405
    assert service.handle("POST", "Observation/_search", "patient=p1&code=GLU").json()["total"] == 2


def test_the_capability_statement_names_types_and_parameters(ward_store: Store) -> None:
    found = FhirService(ward_store, BASE).get("metadata").json()
    types = {resource_type["type"]: resource_type for resource_type in found["rest"][0]["resource"]}
    assert found["fhirVersion"] == "4.0.1"
    assert {"name": "value-quantity", "type": "quantity"} in types["Observation"]["searchParam"]


def test_writes_are_answered_by_their_mode(ward_store: Store) -> None:
    body = json.dumps(VITAL)
    assert FhirService(ward_store, BASE).post("Observation", body).status == 403
    assert (
        FhirService(ward_store, BASE, Writer(ward_store, WriteMode.RECORD))
        .post("Observation", body)
        .status
        == 200
    )
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        reply = service.post("Observation", body)
        assert (reply.status, reply.headers["location"]) == (
            201,
            f"{BASE}/Observation/{reply.json()['id']}/_history/1",
        )
        assert service.get("Observation?patient=p1&category=vital-signs").json()["total"] == 1
        entries = [
            {
                "resource": {**VITAL, "id": "v9"},
                "request": {"method": "PUT", "url": "Observation/v9"},
            },
            {"resource": 1},
        ]
        loaded = service.post(
            "", json.dumps({"resourceType": "Bundle", "type": "batch", "entry": entries})
        ).json()
        assert [entry["response"]["status"] for entry in loaded["entry"]] == ["201", "400"]
        assert service.get("Observation/v9").status == 200


def test_a_client_gives_what_the_store_gives(ward_store: Store) -> None:
    with client_of(FhirService(ward_store, BASE)) as client:
        assert isinstance(client, Record)
        assert isinstance(ward_store, Record)
        assert client.get("Patient", "p1") == ward_store.get("Patient", "p1")
        assert client.get("Patient", "absent") is None
        for query in (
            "Observation?patient=p1&_count=2",
            "MedicationRequest?_include=*",
            "Observation?code=glu",
        ):
            far, near = client.search(query), ward_store.search(query)
            assert (far.entries, far.total, far.notices) == (near.entries, near.total, near.notices)
            assert list(client.search_all(query)) == list(ward_store.search_all(query))
        assert list(client.everything("p1")) == list(ward_store.everything("p1"))
        assert client.counts() == ward_store.counts()
        assert client.counts("p1") == ward_store.counts("p1")
        assert client.codes("Observation", "p1") == ward_store.codes("Observation", "p1")
        assert build_schema_card(client, "p1") == build_schema_card(ward_store, "p1")
        assert lookup(client, "heart rate", patient="p1") == lookup(
            ward_store, "heart rate", patient="p1"
        )
        with pytest.raises(FhirError, match="Did you mean patient"):
            client.search("Observation?pateint=1")


def test_a_client_writes_where_the_server_lets_it(ward_store: Store) -> None:
    with (
        Overlay.over(ward_store) as overlay,
        client_of(FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))) as client,
    ):
        stored = Writer(client, WriteMode.APPLY).post("Observation", json.dumps(VITAL)).stored
        assert stored is not None
        assert client.get("Observation", stored["id"]) == stored


def answering(*replies: httpx2.Response | Exception) -> tuple[FhirClient, list[httpx2.Request]]:
    """A client that receives these replies in turn, the last one for ever."""
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        found = replies[min(len(requests), len(replies)) - 1]
        if isinstance(found, Exception):
            raise found
        return httpx2.Response(found.status_code, headers=found.headers, content=found.content)

    return FhirClient(
        "http://far.example/fhir", token="secret", transport=httpx2.MockTransport(answer)
    ), requests


def searchset(*ids: str, following: str = "", total: int = 9) -> httpx2.Response:
    link = [{"relation": "next", "url": following}] if following else []
    entries = [{"resource": {"resourceType": "Patient", "id": patient_id}} for patient_id in ids]
    return httpx2.Response(
        200, json={"resourceType": "Bundle", "total": total, "link": link, "entry": entries}
    )


def test_a_passing_fault_is_asked_again_and_a_lasting_one_is_told() -> None:
    client, requests = answering(httpx2.Response(503), httpx2.ConnectError("x"), searchset("p1"))
    assert [resource["id"] for resource in client.search("Patient").resources] == ["p1"]
    assert len(requests) == 3
    client, _ = answering(httpx2.Response(500))
    with pytest.raises(ServerUnavailable, match=r"HTTP 500"):
        client.search("Patient")


def test_pages_that_go_in_a_circle_end() -> None:
    client, _ = answering(searchset("p1", following="http://far.example/fhir?page=2"))
    with pytest.raises(FhirError, match="never end"):
        list(client.search_all("Patient"))


def test_a_token_goes_nowhere_else() -> None:
    client, requests = answering(searchset("p1", following="http://evil.example/fhir?page=2"))
    with pytest.raises(FhirError, match="another address"):
        list(client.search_all("Patient"))
    assert [request.headers["authorization"] for request in requests] == ["Bearer secret"]
    client, _ = answering(httpx2.Response(302, headers={"location": "http://evil.example/"}))
    with pytest.raises(FhirError):
        client.search("Patient")
    assert "secret" not in repr(client._token)


@pytest.mark.parametrize(
    "body",
    ["", "<html>", "[]", '{"resourceType": "Patient"}', '{"resourceType": "Bundle", "entry": 7}'],
)
def test_an_answer_that_is_no_bundle_is_told(body: str) -> None:
    client, _ = answering(httpx2.Response(200, text=body))
    with pytest.raises(FhirError, match=r"no Bundle|not JSON"):
        client.search("Patient")


def test_an_answer_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archqa.fhir.client.http_client.MAX_REPLY_BYTES", 10)
    client, _ = answering(searchset("p1"))
    with pytest.raises(FhirError, match="too long"):
        client.search("Patient")


def test_a_refused_token_is_not_tried_again() -> None:
    client, requests = answering(httpx2.Response(401))
    with pytest.raises(AuthenticationFailed):
        client.search("Patient")
    assert len(requests) == 1


def test_tokens_are_fetched_by_client_credentials_once() -> None:
    requests: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request.url.path)
        if request.url.path.endswith("smart-configuration"):
            return httpx2.Response(200, json={"token_endpoint": "http://far.example/token"})
        if request.url.path == "/token":
            return httpx2.Response(200, json={"access_token": "fresh", "expires_in": 3600})
        assert request.headers["authorization"] == "Bearer fresh"
        return searchset("p1")

    token = ClientCredentials("me", "secret")
    client = FhirClient(
        "http://far.example/fhir", token=token, transport=httpx2.MockTransport(answer)
    )
    client.search("Patient")
    client.search("Patient")
    assert requests == [
        "/fhir/.well-known/smart-configuration",
        "/token",
        "/fhir/Patient",
        "/fhir/Patient",
    ]
    assert "secret" not in repr(token)
    assert "fresh" not in repr(token)


def test_one_word_opens_a_file_or_a_server(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_ENV_VAR, "secret")
    assert isinstance(connect(ward_store.path), Store)
    assert isinstance(connect("http://far.example/fhir"), FhirClient)
    with pytest.raises(InputError):
        connect("absent.db")


async def ask(
    application: FhirApplication, method: str, target: str, body: bytes = b"", **headers: str
) -> tuple[int, str]:
    """One request, as uvicorn hands it over."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": query.encode("utf-8", "surrogatepass"),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


async def test_requests_are_answered_at_their_place_and_within_limits(ward_store: Store) -> None:
    application = FhirApplication(FhirService(ward_store, BASE), max_request_bytes=100)
    assert (await ask(application, "GET", "/fhir//Observation?patient=p1"))[0] == 200
    assert (await ask(application, "GET", "/fhir/Observation&patient=p1"))[0] == 200
    assert (await ask(application, "HEAD", "/fhir/metadata")) == (200, "")
    assert (await ask(application, "GET", "/fhirx/metadata"))[0] == 404
    assert (await ask(application, "GET", "/etc/passwd"))[0] == 404
    assert (await ask(application, "POST", "/fhir/Observation", b"x" * 200))[0] == 413
    assert (await ask(application, "POST", "/fhir/Observation", b"\xff"))[0] == 400


async def test_a_token_is_demanded_where_one_is_set(ward_store: Store) -> None:
    application = FhirApplication(FhirService(ward_store, BASE), token="right")
    assert (await ask(application, "GET", "/fhir/metadata"))[0] == 401
    assert (await ask(application, "GET", "/fhir/metadata", authorization="Bearer wrong"))[0] == 401
    assert (await ask(application, "GET", "/fhir/metadata", authorization="bearer right"))[0] == 200


def test_an_address_that_others_reach_needs_a_token(ward_store: Store) -> None:
    pytest.importorskip("uvicorn")
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
    with pytest.raises(CallerError, match="needs a token"):
        serve(FhirService(ward_store, BASE), host="0.0.0.0")


async def test_what_nobody_foresaw_is_not_shown(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FhirService(ward_store, BASE)
    monkeypatch.setattr(service, "handle", lambda *_: 1 / 0)
    status, body = await ask(FhirApplication(service), "GET", "/fhir/metadata")
    assert status == 500
    assert "ZeroDivision" not in body


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
        [b"", b"{", b"[]", b"patient=p1&code=%", b"\xff", json.dumps(VITAL).encode()]
    ),
)
def test_no_request_makes_the_server_fail_or_tell_of_itself(
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
        ask(
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


def test_64_clients_at_once_are_all_served_over_the_network(ward_store: Store) -> None:
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}/fhir"
    config = uvicorn.Config(
        FhirApplication(FhirService(ward_store, base)),
        port=port,
        log_level="critical",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started and time.monotonic() < until:
            thread.join(0.01)
        totals: list[int] = []

        def read() -> None:
            with FhirClient(base) as client:
                totals.extend(
                    len(list(client.search_all("Observation?patient=p1&_count=2")))
                    for _ in range(3)
                )

        threads = [threading.Thread(target=read) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert totals == [5] * 192
    finally:
        server.should_exit = True
        thread.join(10)


def test_serving_without_uvicorn_says_how_to_get_it(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from archqa.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match=r"archqa\[server\]"):
        serve(FhirService(ward_store, BASE))


def test_a_damaged_record_is_told_without_its_place(tmp_path: Path) -> None:
    store = build_store(tmp_path, ward_resources())
    store.close()
    content = bytearray((tmp_path / "record.db").read_bytes())
    content[8192 * 2 :] = b"\x5a" * (len(content) - 8192 * 2)
    (tmp_path / "record.db").write_bytes(content)
    reply = FhirService(store, BASE).get("Observation?patient=p1")
    assert reply.status == 500
    assert str(tmp_path) not in reply.body
