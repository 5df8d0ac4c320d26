"""A PostgreSQL server of our own, on loopback, for as long as a test lasts."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server is installed")
    return found[-1].parent


@contextmanager
def server() -> Iterator[str]:
    """Its URL. PostgreSQL refuses to run as root: there it runs as the user postgres."""
    pytest.importorskip("psycopg_pool", reason="the extra ray is not installed")
    programs, user = _programs(), "postgres" if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="archqa-pg-"))
    if user:
        shutil.chown(folder, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(*words: str) -> None:
        subprocess.run(
            words,
            user=user,
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    data = str(folder / "data")
    run(f"{programs}/initdb", "-D", data, "-U", "archqa", "-A", "trust", "--no-sync")
    options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
    run(
        f"{programs}/pg_ctl",
        "-D",
        data,
        "-w",
        "-l",
        str(folder / "log"),
        "-o",
        options,
        "start",
    )
    try:
        yield f"postgresql://archqa@127.0.0.1:{port}/postgres"
    finally:
        run(f"{programs}/pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
