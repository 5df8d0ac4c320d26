"""A FHIR server on loopback, as `archqa fhir serve` runs it, in a thread of the test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archqa.fhir import Exports, FhirService
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.server.application import FhirApplication
from archqa.safety.local_server import build_server, listen, server_url

TOKEN = "loopback-token"


@contextmanager
def serving(
    record: LocalRecord,
    export_dir: Path | None = None,
    token: str | None = TOKEN,
    port: int = 0,
) -> Iterator[str]:
    """Serve a record and give its base URL; exports in `export_dir` outlast the server."""
    pytest.importorskip("uvicorn", reason="the extra `server` is not installed")
    listening = listen("127.0.0.1", port)
    base = server_url("127.0.0.1", listening, "/fhir")
    exports = Exports(record, export_dir)
    service = FhirService(record, base, exports=exports, needs_token=token is not None)
    server = build_server(FhirApplication(service, token=token, on_loopback=True), lifespan=True)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield base
    finally:
        server.should_exit = True
        thread.join(20)
