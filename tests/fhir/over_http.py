"""A FHIR server on loopback, as `archqa fhir serve` runs it, in a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from archqa.fhir import FhirService
from archqa.fhir.server.application import FhirApplication
from archqa.fhir.store import LocalRecord
from archqa.safety.local_server import build_server, listen, server_url

TOKEN = "loopback-token"


@contextmanager
def serving(record: LocalRecord) -> Iterator[str]:
    """Serve a record and give its base URL."""
    pytest.importorskip("uvicorn", reason="the extra `server` is not installed")
    listening = listen("127.0.0.1", 0)
    base = server_url("127.0.0.1", listening, "/fhir")
    service = FhirService(record, base)
    server = build_server(FhirApplication(service, token=TOKEN, on_loopback=True))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, daemon=True
    )
    thread.start()
    try:
        yield base
    finally:
        server.should_exit = True
        thread.join(20)
