"""The limits of the client: a test fails when one is lowered, raised or removed."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import stamina

from archqa.errors import ServerUnavailable
from archqa.fhir import (
    FhirClient,
    FhirError,
    Page,
)
from archqa.fhir.client import smart

MIB = 2**20


@pytest.fixture(autouse=True)
def no_pauses_between_attempts() -> Iterator[None]:
    """Without pauses, and with as many attempts as the client makes."""
    with stamina.set_testing(True, attempts=50, cap=True):
        yield


def client_with(answer: Any, **options: Any) -> FhirClient:
    transport = httpx2.MockTransport(answer)
    return FhirClient("https://far.example/fhir", transport=transport, **options)


EMPTY_BUNDLE = {"resourceType": "Bundle", "type": "searchset", "total": 0}


@pytest.mark.parametrize(
    ("status", "attempts"),
    [
        (408, 4),
        (429, 4),
        (500, 4),
        (502, 4),
        (503, 4),
        (504, 4),
        (400, 1),
        (404, 1),
        (409, 1),
        (422, 1),
        (501, 1),
    ],
)
def test_a_transient_status_is_tried_four_times_and_any_other_once(
    status: int, attempts: int
) -> None:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(status)

    with pytest.raises((FhirError, ServerUnavailable)):
        client_with(answer).search("Patient")
    assert len(requests) == attempts


def test_a_request_may_take_a_minute() -> None:
    timeouts: list[dict[str, float]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx2.Response(200, json=EMPTY_BUNDLE)

    client_with(answer).search("Patient")
    assert set(timeouts[0].values()) == {60.0}


class EndlessReply(httpx2.SyncByteStream):
    """The same MiB for ever; `sent` counts how often it was read."""

    def __init__(self) -> None:
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        part = b" " * MIB
        while True:
            self.sent += 1
            yield part


def test_the_client_reads_256_mib_of_a_reply_and_no_more() -> None:
    stream = EndlessReply()
    client = client_with(lambda request: httpx2.Response(200, stream=stream))
    with pytest.raises(FhirError, match="too long"):
        client.search("Patient")
    assert stream.sent == 257


def test_the_client_reads_ten_thousand_next_pages_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries: list[str] = []

    def search(self: FhirClient, query: str, params: object = None) -> Page:
        queries.append(query)
        return Page(query, next=f"https://far.example/fhir?page={len(queries)}")

    monkeypatch.setattr(FhirClient, "search", search)
    with pytest.raises(FhirError, match="never end"):
        list(FhirClient("https://far.example/fhir").search_all("Patient"))
    assert len(queries) == 10_001


def test_the_client_counts_codes_in_pages_of_a_thousand() -> None:
    urls: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        urls.append(str(request.url))
        return httpx2.Response(200, json=EMPTY_BUNDLE)

    client_with(answer).codes("Observation", "p1")
    assert urls == ["https://far.example/fhir/Observation?_count=1000&patient=p1"]


@pytest.mark.parametrize(("lifetime", "lasts"), [({"expires_in": 100}, 70), ({}, 270)])
def test_a_token_is_renewed_half_a_minute_before_its_end(
    monkeypatch: pytest.MonkeyPatch, lifetime: dict[str, int], lasts: int
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(smart.time, "monotonic", lambda: clock[0])
    renewals: list[float] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        renewals.append(clock[0])
        return httpx2.Response(200, json={"access_token": "fresh", **lifetime})

    token = smart.ClientCredentials(
        "me", "secret", token_url="https://far.example/token"
    )
    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        for moment in (1000.0, 999.0 + lasts, 1000.0 + lasts):
            clock[0] = moment
            token.token(client)
    assert renewals == [1000.0, 1000.0 + lasts]


def test_a_client_shows_five_diagnoses_of_600_characters() -> None:
    issues = [{"diagnostics": f"{number}{'x' * 700}"} for number in range(9)]
    client = client_with(lambda request: httpx2.Response(400, json={"issue": issues}))
    with pytest.raises(FhirError) as caught:
        client.search("Patient")
    assert [len(text) for text in caught.value.diagnostics] == [600] * 5
