"""Real servers on loopback, each as a process: sekmet-fhir 0.1.1 from PyPI, and ours.

sekmet needs an environment of its own. `ARCHQA_SEKMET` names its command, for example
/tmp/sekmet/bin/sekmet after
`python -m venv /tmp/sekmet && /tmp/sekmet/bin/pip install sekmet-fhir==0.1.1`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

_SETTINGS = """
host: 127.0.0.1
port: {port}
base_url: http://127.0.0.1:{port}/fhir
db_path: {folder}/sekmet.db
validation: {{inbound: "off"}}
simulator: {{enabled: false}}
log_inbound: false
"""


def sekmet_command() -> str | None:
    """The command, if it is here."""
    return os.environ.get("ARCHQA_SEKMET") or shutil.which("sekmet")


@contextmanager
def sekmet(folder: Path) -> Iterator[str]:
    """A sekmet server with nothing in it; its base URL."""
    port = free_port()
    (folder / "settings.yaml").write_text(_SETTINGS.format(port=port, folder=folder))
    command = [
        str(sekmet_command()),
        "serve",
        "--config",
        str(folder / "settings.yaml"),
    ]
    with _running(command, folder, f"http://127.0.0.1:{port}/fhir") as base:
        yield base


@contextmanager
def ours(record: Path, profile: str = "hapi") -> Iterator[str]:
    """Our server over a record; its base URL."""
    port = free_port()
    program = "from archqa.cli.fhir import app; app()"
    command = [
        sys.executable,
        "-c",
        program,
        "serve",
        str(record),
        "--port",
        str(port),
        "--profile",
        profile,
        "--no-token",
    ]
    with _running(command, record.parent, f"http://127.0.0.1:{port}/fhir") as base:
        yield base


def fill(base: str, resources: Iterable[dict[str, Any]], at_once: int = 500) -> None:
    """Put resources on a server, by transactions, in order."""
    every = list(resources)
    with httpx2.Client(timeout=300) as client:
        for start in range(0, len(every), at_once):
            entries = [
                {
                    "resource": each,
                    "request": {
                        "method": "PUT",
                        "url": f"{each['resourceType']}/{each['id']}",
                    },
                }
                for each in every[start : start + at_once]
            ]
            body = json.dumps(
                {"resourceType": "Bundle", "type": "transaction", "entry": entries}
            )
            client.post(
                base, content=body, headers={"content-type": "application/fhir+json"}
            ).raise_for_status()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _running(command: list[str], folder: Path, base: str) -> Iterator[str]:
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _await(base, process)
        yield base
    finally:
        process.terminate()
        process.wait(20)


def _await(base: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx2.get(f"{base}/metadata", timeout=10).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.1)
    raise RuntimeError(f"{base} does not answer")
