"""A FHIR server that failed every retry is left alone for a while; else a run of many tasks would wait each time."""

from typing import cast

import pytest

from archqa.errors import ServerUnavailable
from archqa.fhir import FhirClient
from archqa.tasks.medagentbench import session
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, ServerGateway

URL = f"{FHIR_BASE_URL}Patient?identifier=S1"


class UnreachableClient:
    """Counts requests, none of which is answered."""

    base = "http://127.0.0.1:9/fhir"

    def __init__(self) -> None:
        self.requests = 0

    def fetch(self, path: str) -> str:
        self.requests += 1
        raise ServerUnavailable("no answer")


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(session.time, "monotonic", clock)
    return clock


def test_an_unreachable_server_is_not_called_again_for_five_seconds(
    clock: Clock,
) -> None:
    client = UnreachableClient()
    server = ServerGateway(cast("FhirClient", client))
    errors = [server.get(URL).error]
    clock.seconds += 4.9
    errors.append(server.get(URL).error)
    assert client.requests == 1
    assert errors == ["ConnectionError: the FHIR server does not answer"] * 2


def test_after_the_pause_the_server_is_called_again(clock: Clock) -> None:
    client = UnreachableClient()
    server = ServerGateway(cast("FhirClient", client))
    server.get(URL)
    clock.seconds += 5.1
    server.get(URL)
    assert client.requests == 2
