"""What a release uploads: the wheel and the sdist, built once for all tests of this folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel of this checkout, built without a network."""
    pytest.importorskip("hatchling", reason="builds the wheel; it is in the group dev")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    environment = {**os.environ, "PYTHONPATH": ""}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return folder
