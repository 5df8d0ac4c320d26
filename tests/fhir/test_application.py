"""The server over HTTP: paths, sizes, tokens and addresses."""

import socket
import threading
import time

import pytest

from archqa.errors import CallerError
from archqa.fhir import (
    FhirClient,
    FhirService,
    Store,
)
from archqa.fhir.server.application import FhirApplication, is_loopback, serve
from tests.fhir.serving import BASE, send_request


async def test_requests_are_answered_under_the_base_path_and_within_limits(
    ward_store: Store,
) -> None:
    application = FhirApplication(FhirService(ward_store, BASE), max_request_bytes=100)
    assert (await send_request(application, "GET", "/fhir//Observation?patient=p1"))[
        0
    ] == 200
    assert (await send_request(application, "GET", "/fhir/Observation&patient=p1"))[
        0
    ] == 200
    assert (await send_request(application, "HEAD", "/fhir/metadata")) == (200, "")
    assert (await send_request(application, "GET", "/fhirx/metadata"))[0] == 404
    assert (await send_request(application, "GET", "/etc/passwd"))[0] == 404
    assert (await send_request(application, "POST", "/fhir/Observation", b"x" * 200))[
        0
    ] == 413
    assert (await send_request(application, "POST", "/fhir/Observation", b"\xff"))[
        0
    ] == 400


async def test_a_server_with_a_token_demands_it(ward_store: Store) -> None:
    application = FhirApplication(FhirService(ward_store, BASE), token="right")
    assert (await send_request(application, "GET", "/fhir/metadata"))[0] == 401
    assert (
        await send_request(
            application, "GET", "/fhir/metadata", authorization="Bearer wrong"
        )
    )[0] == 401
    assert (
        await send_request(
            application, "GET", "/fhir/metadata", authorization="bearer right"
        )
    )[0] == 200


def test_an_address_outside_loopback_needs_a_token(ward_store: Store) -> None:
    pytest.importorskip("uvicorn")
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
    with pytest.raises(CallerError, match="needs a token"):
        serve(FhirService(ward_store, BASE), host="0.0.0.0")


async def test_an_unexpected_error_is_not_shown_to_the_client(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FhirService(ward_store, BASE)
    monkeypatch.setattr(service, "handle", lambda *_: 1 / 0)
    status, body = await send_request(FhirApplication(service), "GET", "/fhir/metadata")
    assert status == 500
    assert "ZeroDivision" not in body


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
