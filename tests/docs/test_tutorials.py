"""The commands of docs/tutorials do what the tutorials say."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.test_commands import archqa

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


def _commands(code: str) -> Iterator[str]:
    """Yield the commands of a block, each with the lines of its here-document."""
    lines = iter(code.splitlines())
    for line in lines:
        command = [line]
        if "<<'END'" in line:
            for text in lines:
                command.append(text)
                if text == "END":
                    break
        yield "\n".join(command)


def _run(code: str, folder: Path) -> str:
    """Return what the commands of a block print.

    Those of archqa run in this process, which saves the start of another one for each.
    """
    return "".join(_output(command, folder) for command in _commands(code))


def _output(command: str, folder: Path) -> str:
    words = shlex.split(command)
    if words[0] == "archqa":
        result = archqa(*words[1:], cwd=folder)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
        return result.stdout
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def _says(output: str, line: str) -> bool:
    """Compare without regard to runs of blanks; … stands for anything in a line."""
    parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
    pattern = r"[^\n]*".join(parts)
    tidy = "\n".join(" ".join(each.split()) for each in output.splitlines())
    return re.search(pattern, tidy) is not None


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_the_commands_of_a_tutorial_print_what_it_says(
    tutorial: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    output = ""
    for block in _blocks(tutorial):
        if block.info == "sh":
            output = _run(block.code, tmp_path)
        elif block.info == "text":
            missing = [
                line for line in block.code.splitlines() if not _says(output, line)
            ]
            assert missing == [], output


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_command_that_is_not_run_says_why(tutorial: Path) -> None:
    others = [block for block in _blocks(tutorial) if block.info not in {"sh", "text"}]
    assert all(block.info.startswith(f"sh {NOT_RUN}") for block in others)
    assert any(block.info == "sh" for block in _blocks(tutorial))


def test_a_tutorial_is_one_sitting() -> None:
    assert all(len(tutorial.read_text().splitlines()) <= 100 for tutorial in TUTORIALS)
