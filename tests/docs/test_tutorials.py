"""The commands of docs/tutorials do what the tutorials say."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
NOT_RUN = 'title="Not run by the tests: '


class Block(NamedTuple):
    """A fenced block: what stands after its fence, and its lines."""

    info: str
    code: str


def _blocks(tutorial: Path) -> list[Block]:
    fences = re.findall(r"^```([^\n]+)\n(.*?)^```$", tutorial.read_text(), re.M | re.S)
    return [Block(*fence) for fence in fences]


def _environment(folder: Path) -> dict[str, str]:
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ARCHQA_", "OPENAI_", "XDG_"))
    }
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    python_path = str(ROOT)
    return {**mine, "HOME": str(folder), "PATH": path, "PYTHONPATH": python_path, "COLUMNS": "160"}


def _run(code: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _says(output: str, line: str) -> bool:
    """Compare without regard to runs of blanks; … stands for anything in a line."""
    parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
    pattern = r"[^\n]*".join(parts)
    tidy = "\n".join(" ".join(each.split()) for each in output.splitlines())
    return re.search(pattern, tidy) is not None


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_the_commands_of_a_tutorial_print_what_it_says(tutorial: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    output = ""
    for block in _blocks(tutorial):
        if block.info == "sh":
            output = _run(block.code, tmp_path)
        elif block.info == "text":
            missing = [line for line in block.code.splitlines() if not _says(output, line)]
            assert missing == [], output


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_command_that_is_not_run_says_why(tutorial: Path) -> None:
    others = [block for block in _blocks(tutorial) if block.info not in {"sh", "text"}]
    assert all(block.info.startswith(f"sh {NOT_RUN}") for block in others)
    assert any(block.info == "sh" for block in _blocks(tutorial))


def test_a_tutorial_is_one_sitting() -> None:
    assert all(len(tutorial.read_text().splitlines()) <= 100 for tutorial in TUTORIALS)
