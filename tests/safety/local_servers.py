"""Start `archqa serve` and `archqa fhir serve` as a user does, and send them raw requests."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from archqa.fhir import Store
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.writes import VITAL_SIGN

ROOT = Path(__file__).resolve().parents[2]
ARCHQA = [sys.executable, "-c", "from archqa.cli.main import run; run()"]
JSON_TYPE = "application/fhir+json"
OBSERVATION = json.dumps(VITAL_SIGN).encode()
START_SECONDS = 60


class Answer(NamedTuple):
    """One reply. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    text: str


class LocalServer:
    """A server that runs: what it printed, and ways to ask it."""

    def __init__(self, printed_url: str, process: "subprocess.Popen[str]") -> None:
        parts = urlsplit(printed_url)
        self.printed_url = printed_url
        self.process = process
        self.host = (parts.hostname or "").replace("0.0.0.0", "127.0.0.1")
        self.port = parts.port or 80
        self.path = parts.path
        self.token = parse_qs(parts.query).get("token", [""])[0]
        self.address = f"{parts.scheme}://{parts.netloc}"
        self.stderr: list[str] = []

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def ask(
        self,
        target: str,
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        *,
        method: str = "GET",
        body: bytes | None = None,
    ) -> Answer:
        """Send one request; `Host` is this server's own unless the headers have one."""
        pairs = (
            list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        )
        if not any(name.lower() == "host" for name, _ in pairs):
            pairs.insert(0, ("Host", f"{self.host}:{self.port}"))
        if body is not None:
            pairs.append(("Content-Length", str(len(body))))
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        try:
            connection.putrequest(
                method, target, skip_host=True, skip_accept_encoding=True
            )
            for name, value in pairs:
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read().decode())
        finally:
            connection.close()


@contextmanager
def started(
    *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[LocalServer]:
    """Run a command that serves, until the block ends."""
    process = subprocess.Popen(
        [*ARCHQA, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        printed_url = process.stdout.readline().strip()
        assert printed_url.startswith("http://"), (printed_url, _rest(process))
        server = LocalServer(printed_url, process)
        yield server
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def ended(server: LocalServer) -> tuple[int, str, str]:
    """End a server with Ctrl-C; return its exit code and what it wrote since its address."""
    server.process.send_signal(signal.SIGINT)
    stdout, stderr = server.process.communicate(timeout=20)
    return server.process.returncode, stdout, stderr


def refused(
    *arguments: str, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command that must end by itself instead of serving."""
    return subprocess.run(
        [*ARCHQA, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )


def ward_record(folder: Path) -> Path:
    """A record of the invented ward."""
    store: Store = build_store(folder / "ward", ward_resources())
    store.close()
    return store.path


def cookie_of(answer: Answer) -> str:
    """The cookie that a reply sets, as the browser sends it back."""
    match = re.match(r"[^;]+", answer.headers["set-cookie"])
    assert match
    return match[0]


def _rest(process: "subprocess.Popen[str]") -> str:
    process.kill()
    return process.communicate()[1]
