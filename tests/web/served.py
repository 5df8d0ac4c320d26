"""`archqa serve` in a process of its own, for the browser tests and the reference screenshots."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[str]:
    """Serve the runs of a folder on a free port; yield the printed URL, which has the token."""
    start = "from archqa.cli.main import run; run()"
    command = [
        sys.executable,
        "-c",
        start,
        "serve",
        str(folder),
        "--port",
        "0",
        *arguments,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def page_url(server_url: str, path: str) -> str:
    """Return the address of a page with the token of the printed one, for a new browser."""
    return server_url.replace("/?token=", f"/{path}?token=")
