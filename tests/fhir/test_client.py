"""The client: it gives what the store gives, retries passing faults, and protects its token."""

import json
from collections.abc import Iterator

import httpx2
import pytest
import stamina

from archqa.errors import (
    AuthenticationFailed,
    InputError,
    Redirected,
    ServerUnavailable,
)
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
from tests.fhir.invented import ids_of
from tests.fhir.serving import BASE, client_of
from tests.fhir.writes import VITAL_SIGN


@pytest.fixture(autouse=True)
def no_pauses_between_attempts() -> Iterator[None]:
    stamina.set_testing(True, attempts=3)
    yield
    stamina.set_testing(False)


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
            from_client = client.search(query)
            from_store = ward_store.search(query)
            assert from_client.entries == from_store.entries
            assert from_client.total == from_store.total
            assert from_client.notices == from_store.notices
            assert list(client.search_all(query)) == list(ward_store.search_all(query))
        assert list(client.everything("p1")) == list(ward_store.everything("p1"))
        assert client.counts() == ward_store.counts()
        assert client.counts("p1") == ward_store.counts("p1")
        assert client.codes("Observation", "p1") == ward_store.codes(
            "Observation", "p1"
        )
        assert build_schema_card(client, "p1") == build_schema_card(ward_store, "p1")
        hits = lookup(ward_store, "heart rate", patient="p1")
        assert lookup(client, "heart rate", patient="p1") == hits
        with pytest.raises(FhirError, match="Did you mean patient"):
            client.search("Observation?pateint=1")


def test_a_client_says_what_a_server_warns_of(ward_store: Store) -> None:
    gcp = FhirService(ward_store.as_profile("gcp"), BASE)
    with client_of(gcp) as client:
        assert client.search("Observation?patient=p1").notices == []
        page = client.search("Observation?patient=p1&pateint=2")
    assert page.notices == ["The server says: ignored: pateint"]
    assert page.entries == ward_store.search("Observation?patient=p1").entries


def test_several_warnings_of_a_server_are_told_apart() -> None:
    bundle = {"resourceType": "Bundle", "type": "searchset"}
    warning = '199 hapi "stale, perhaps", 299 - "code ignored" "Thu, 26 Nov 2026 10:00:00 GMT"'
    client, _ = answering(
        httpx2.Response(200, json=bundle, headers={"warning": warning})
    )
    assert client.search("Observation?code=1").server_warnings == (
        "stale, perhaps",
        "code ignored",
    )


def test_a_client_writes_where_the_server_lets_it(ward_store: Store) -> None:
    body = json.dumps(VITAL_SIGN)
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        client = client_of(service)
        stored = Writer(client, WriteMode.APPLY).post("Observation", body).stored
        assert stored is not None
        assert client.get("Observation", stored["id"]) == stored


def answering(
    *replies: httpx2.Response | Exception,
) -> tuple[FhirClient, list[httpx2.Request]]:
    """A client that receives these replies in turn, the last one for ever."""
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        position = min(len(requests), len(replies)) - 1
        reply = replies[position]
        if isinstance(reply, Exception):
            raise reply
        return httpx2.Response(
            reply.status_code, headers=reply.headers, content=reply.content
        )

    return FhirClient(
        "https://far.example/fhir",
        token="secret",
        transport=httpx2.MockTransport(answer),
    ), requests


def searchset(*ids: str, following: str = "", total: int = 9) -> httpx2.Response:
    link = [{"relation": "next", "url": following}] if following else []
    entries = [
        {"resource": {"resourceType": "Patient", "id": patient_id}}
        for patient_id in ids
    ]
    return httpx2.Response(
        200,
        json={"resourceType": "Bundle", "total": total, "link": link, "entry": entries},
    )


def test_a_transient_failure_is_retried_and_a_lasting_one_is_reported() -> None:
    client, requests = answering(
        httpx2.Response(503), httpx2.ConnectError("x"), searchset("p1")
    )
    assert ids_of(client.search("Patient").resources) == ["p1"]
    assert len(requests) == 3
    client, _ = answering(httpx2.Response(500))
    with pytest.raises(ServerUnavailable, match=r"HTTP 500"):
        client.search("Patient")


def test_pages_that_go_in_a_circle_end() -> None:
    client, _ = answering(searchset("p1", following="https://far.example/fhir?page=2"))
    with pytest.raises(FhirError, match="never end"):
        list(client.search_all("Patient"))


def test_a_token_is_sent_to_no_other_server() -> None:
    client, requests = answering(
        searchset("p1", following="http://evil.example/fhir?page=2")
    )
    with pytest.raises(FhirError, match="another address"):
        list(client.search_all("Patient"))
    assert [request.headers["authorization"] for request in requests] == [
        "Bearer secret"
    ]
    client, _ = answering(
        httpx2.Response(302, headers={"location": "http://evil.example/"})
    )
    with pytest.raises(Redirected, match="evil"):
        client.search("Patient")
    assert "secret" not in repr(client._token)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        "[]",
        '{"resourceType": "Patient"}',
        '{"resourceType": "Bundle", "entry": 7}',
    ],
)
def test_an_answer_that_is_no_bundle_is_an_error(body: str) -> None:
    client, _ = answering(httpx2.Response(200, text=body))
    with pytest.raises(FhirError, match=r"no Bundle|not JSON"):
        client.search("Patient")


def test_an_answer_that_is_too_long_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
            return httpx2.Response(
                200, json={"token_endpoint": "https://far.example/token"}
            )
        if request.url.path == "/token":
            return httpx2.Response(
                200, json={"access_token": "fresh", "expires_in": 3600}
            )
        assert request.headers["authorization"] == "Bearer fresh"
        return searchset("p1")

    token = ClientCredentials("me", "secret")
    client = FhirClient(
        "https://far.example/fhir", token=token, transport=httpx2.MockTransport(answer)
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


def test_connect_opens_a_file_or_a_server(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_ENV_VAR, "secret")
    assert isinstance(connect(ward_store.path), Store)
    assert isinstance(connect("https://far.example/fhir"), FhirClient)
    with pytest.raises(InputError):
        connect("absent.db")
