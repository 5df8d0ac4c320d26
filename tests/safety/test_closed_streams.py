"""Closed streams, no memory, a home that cannot be read: one sentence each, and nothing else."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

ENVIRONMENT = {"PATH": "", "PYTHONPATH": str(ROOT)}
NOTE = "He was given furosemide for oedema."


def archqa(
    *arguments: str, closed: tuple[int, ...] = (), mebibytes: int = 0, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """The command with some of its streams closed, or with so much memory."""

    def prepare() -> None:
        for number in closed:
            os.close(number)
        if mebibytes:
            resource.setrlimit(resource.RLIMIT_AS, (mebibytes * 2**20,) * 2)

    return subprocess.run(
        [sys.executable, "-m", "archqa", *arguments],
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=prepare,
        timeout=120,
        check=False,
        **{"env": ENVIRONMENT, **options},
    )


@pytest.fixture
def note(tmp_path: Path) -> str:
    path = tmp_path / "note.txt"
    path.write_text(NOTE)
    return str(path)


def test_a_note_from_a_closed_standard_input_is_empty(tmp_path: Path) -> None:
    result = archqa("ask", "Why?", "--note", "-", closed=(0,), cwd=tmp_path)
    assert result.returncode == 3
    assert "archqa: standard input is empty.\n" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [("--version",), ("list", "tasks")])
def test_nothing_begins_where_the_output_is_closed(command: tuple[str, ...]) -> None:
    result = archqa(*command, closed=(1,))
    assert result.returncode == 3
    assert result.stderr == (
        "archqa: standard output is closed; nothing was begun.\n"
        "        Send it to a file, or to /dev/null.\n"
    )
    assert archqa(*command, closed=(0, 1, 2)).returncode == 3


def test_without_any_home_there_is_one_sentence(note: str) -> None:
    home = {**ENVIRONMENT, "HOME": "~nobody-of-this-name"}
    result = archqa("ask", "Why furosemide?", "--note", note, env=home)
    assert "Traceback" not in result.stderr


def test_with_closed_errors_the_output_is_json_alone(note: str) -> None:
    result = archqa("ask", "Why furosemide?", "--note", note, "--json", closed=(2,))
    assert result.returncode == 0
    assert json.loads(result.stdout)["status"] == "answered"


@pytest.mark.parametrize("mebibytes", [50, 60])
def test_a_lack_of_memory_is_one_sentence(mebibytes: int, note: str) -> None:
    result = archqa("ask", "Why furosemide?", "--note", note, mebibytes=mebibytes)
    assert result.returncode == 3
    assert "the memory of this machine, or the limit of this process" in result.stderr
    assert "Traceback" not in result.stderr


WITHOUT_PRIVILEGES = "--bounding-set=-dac_override,-dac_read_search"


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its privileges")
def test_a_home_that_cannot_be_read_is_one_sentence(tmp_path: Path, note: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o000)
    result = subprocess.run(
        [
            str(shutil.which("setpriv")),
            WITHOUT_PRIVILEGES,
            WITHOUT_PRIVILEGES.replace("bounding-set", "inh-caps"),
            *(sys.executable, "-m", "archqa", "ask", "Why?", "--note", note),
        ],
        env={**ENVIRONMENT, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 3
    assert "cannot be read or written: Permission denied." in result.stderr
    assert "Traceback" not in result.stderr
