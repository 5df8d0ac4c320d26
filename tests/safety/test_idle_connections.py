"""Connections on which nothing moves are closed, and idle ones keep no client out."""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from archqa.fhir import FhirService, Store
from archqa.fhir.server.application import FhirApplication
from archqa.safety.connection_limits import ConnectionLimits, TimedProtocol
from archqa.safety.local_server import App, Receive, Scope, Send, build_server, listen
from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.fhir.invented import build_store, ward_resources

Address = tuple[str, int]

SHORT = ConnectionLimits(
    header_seconds=0.3, body_seconds=0.6, stalled_reply_seconds=0.3, connections=8
)
HEADER = b"GET /fhir/Patient/p1 HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /fhir/Observation HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@contextmanager
def serving(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """Serve in a thread, as the commands do, with short limits."""
    monkeypatch.setattr(TimedProtocol, "limits", SHORT)
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    server = build_server(app)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True
    )
    thread.start()
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join(10)


def pages(folder: Path) -> App:
    return create_app(WebConfig([folder]), settings=Settings())


def record(folder: Path) -> App:
    store: Store = build_store(folder / "ward", ward_resources())
    return FhirApplication(FhirService(store))


@pytest.fixture(params=[pages, record])
def address(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Address]:
    make: Callable[[Path], App] = request.param
    with serving(make(tmp_path), monkeypatch) as address:
        yield address


def seconds_until_closed(connection: socket.socket, drip: bytes = b"") -> float:
    """Send a byte now and then, if any, until the server closes; 3 s at most."""
    began = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < 3:
        try:
            if drip:
                connection.sendall(drip)
            if connection.recv(65536) == b"":
                return time.monotonic() - began
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - began
    return float("inf")


def reply_to(connection: socket.socket, request: bytes) -> bytes:
    connection.settimeout(5)
    connection.sendall(request)
    return connection.recv(65536)


@pytest.mark.parametrize("beginning", [b"", b"G", HEADER, HEADER + b"X-Long: "])
def test_a_header_that_never_ends_is_not_waited_for(
    address: Address, beginning: bytes
) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(beginning)
        assert 0.2 <= seconds_until_closed(connection) < 1.5


def test_a_header_that_drips_in_is_not_waited_for_either(address: Address) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(HEADER + b"X-Long: ")
        assert 0.2 <= seconds_until_closed(connection, drip=b"x") < 1.5


def test_a_body_that_drips_in_is_waited_for_longer_and_not_for_ever(
    address: Address,
) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(POST + b"Content-Length: 1000000\r\n\r\n")
        assert seconds_until_closed(connection, drip=b" ") < 2
    with socket.create_connection(address) as connection:
        connection.sendall(
            b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        )
        assert seconds_until_closed(connection) < 2


def test_a_connection_may_be_used_again_in_time(address: Address) -> None:
    client = http.client.HTTPConnection(*address, timeout=5)
    client.connect()
    connection = client.sock
    with closing(client):
        for _ in range(4):
            client.request("GET", "/fhir/Patient/p1")
            assert client.getresponse().read()
            assert client.sock is connection
            time.sleep(0.1)
        connection.sendall(HEADER)
        assert 0.1 <= seconds_until_closed(connection, drip=b"x") < 1.5


def test_idle_connections_keep_no_client_out(address: Address) -> None:
    with ExitStack() as stack:
        for _ in range(SHORT.connections * 5):
            stack.enter_context(socket.create_connection(address))
        client = stack.enter_context(socket.create_connection(address))
        reply = reply_to(client, HEADER + b"\r\n")
    assert reply.startswith((b"HTTP/1.1 200", b"HTTP/1.1 404"))


def test_a_client_that_reads_no_reply_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dropped = threading.Event()

    async def long_reply(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        part = {"type": "http.response.body", "body": b"x" * 2**20, "more_body": True}
        for _ in range(1000):
            await send(dict(part))
        dropped.set()

    with (
        serving(long_reply, monkeypatch) as address,
        socket.create_connection(address) as client,
    ):
        client.sendall(HEADER + b"\r\n")
        assert dropped.wait(3)


def test_a_client_that_reads_slowly_is_served_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 24 * 2**20

    async def one_part(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    with (
        serving(one_part, monkeypatch) as address,
        socket.create_connection(address) as client,
    ):
        client.settimeout(5)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        received = 0
        while part := client.recv(2**20):
            received += len(part)
            time.sleep(0.03)
    assert received > size


def test_the_limits_are_those_that_the_documentation_names() -> None:
    assert ConnectionLimits() == (30.0, 120.0, 30.0, 256)
