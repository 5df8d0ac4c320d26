"""The limits of the server: a test fails when one is lowered, raised or removed."""

import asyncio
import json
import socket
import threading
import time
from typing import Any

import pytest

from archqa.errors import CallerError
from archqa.fhir import (
    FhirService,
    Store,
)
from archqa.fhir.index import schema
from archqa.fhir.server import application as http
from archqa.fhir.server.application import FhirApplication, serve
from tests.fhir.serving import BASE, send_request

MIB = 2**20


async def test_a_request_body_may_have_16_mib(ward_store: Store) -> None:
    application = FhirApplication(FhirService(ward_store, BASE))
    largest = b" " * (16 * MIB)
    assert (await send_request(application, "POST", "/fhir/Observation", largest))[
        0
    ] == 403
    assert (
        await send_request(application, "POST", "/fhir/Observation", largest + b" ")
    )[0] == 413


def test_the_server_gives_up_a_search_after_30_seconds(ward_store: Store) -> None:
    FhirApplication(FhirService(ward_store, BASE))
    assert ward_store.time_limit == 30.0


async def test_the_server_runs_four_requests_at_once(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    handle = service.handle
    running, largest = 0, 0
    lock = threading.Lock()

    def slow(*request: Any) -> Any:
        nonlocal running, largest
        with lock:
            running += 1
            largest = max(largest, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return handle(*request)

    service.handle = slow  # type: ignore[method-assign]
    application = FhirApplication(service)
    await asyncio.gather(
        *(send_request(application, "GET", "/fhir/Patient/p1") for _ in range(16))
    )
    assert largest == 4


async def test_a_request_waits_four_times_the_limit_of_a_search(
    ward_store: Store,
) -> None:
    service = FhirService(ward_store, BASE)
    release = threading.Event()
    service.handle = lambda *request: release.wait(20)  # type: ignore[method-assign,assignment,return-value]
    start = time.monotonic()
    status, _ = await send_request(
        FhirApplication(service, seconds=0.1), "GET", "/fhir/Patient/p1"
    )
    release.set()
    assert status == 503
    assert time.monotonic() - start >= 0.39


def test_uvicorn_is_started_quietly_on_loopback(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    uvicorn = pytest.importorskip("uvicorn")
    addresses: list[Any] = []
    configs: list[Any] = []

    def run(server: Any, sockets: list[socket.socket]) -> None:
        addresses.extend(listening.getsockname() for listening in sockets)
        configs.append(server.config)
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    serve(FhirService(ward_store, BASE), port=0)
    [(host, _)] = addresses
    [config] = configs
    assert host == "127.0.0.1"
    assert config.log_level == "warning"
    assert config.access_log is False
    assert config.limit_concurrency == 512
    assert config.lifespan == "off"
    assert config.proxy_headers is False
    assert config.ws == "none"


def test_the_body_limit_of_the_server_is_its_default(ward_store: Store) -> None:
    with pytest.raises(CallerError):
        serve(FhirService(ward_store, BASE), host="192.0.2.1")
    assert http.is_loopback("127.255.0.1")


def test_a_locked_record_says_when_to_ask_again(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise schema.RecordLocked(ward_store.path, [": another load is writing it."])

    monkeypatch.setattr(Store, "session", locked)
    reply = FhirService(ward_store, BASE).get("Patient/p1")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert json.loads(reply.body)["issue"][0]["code"] == "transient"
