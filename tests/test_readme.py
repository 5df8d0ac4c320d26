"""The README: short enough to be read, and its commands run as they stand there."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import archqa

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_WORDS = 700
MAX_WIDTH = 120


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read, where they may write."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("data", "examples"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def _run_in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    shell = ["bash", "-c", command]
    return subprocess.run(
        shell, cwd=folder, env=environment, capture_output=True, text=True
    )


def test_it_is_a_screen_and_a_half() -> None:
    assert len(README.split()) <= MAX_WORDS
    prose = [line for line in README.splitlines() if not line.startswith(("|", "!["))]
    assert max(map(len, prose)) <= MAX_WIDTH


def test_its_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_commands_that_need_nothing_run_one_after_the_other(clone: Path) -> None:
    commands = _blocks("sh")[1].splitlines()
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command, comments=True)
        if words[0] == "archqa":  # In this process, which saves the start of another.
            ended = archqa(*words[1:], cwd=clone)
        else:
            ended = _run_in_shell(command, clone)
        assert ended.returncode == 0, f"{command}\n{ended.stderr}"
        assert ended.stdout.strip(), command


def test_the_lines_of_python_run(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = _blocks("python")
    monkeypatch.chdir(clone)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    score, answer = output.getvalue().splitlines()
    assert 70 < float(score) < 80
    assert "oedema" in answer


def test_the_other_commands_name_options_that_exist() -> None:
    for line in _blocks("sh")[2].splitlines():
        command = line.split("#")[0].split()
        options = [word for word in command if word.startswith("--")]
        help_page = archqa(command[1], "--help").stdout
        assert [option for option in options if option not in help_page] == []
