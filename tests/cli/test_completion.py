"""Completions of the shell: what is offered, how fast, and the scripts that make a shell ask."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import archqa as library
from archqa.cli.main import COMMANDS
from tests.cli.test_commands import archqa
from tests.cli.test_start import PROGRAM

ROOT = Path(__file__).resolve().parents[2]


def completions(line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    return ask_shell(line, "complete_bash").stdout.split()


def ask_shell(line: str, instruction: str) -> subprocess.CompletedProcess[str]:
    words = line.split(" ")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_ARCHQA_COMPLETE": instruction,
        "_TYPER_COMPLETE_ARGS": line,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-m", "archqa"]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("archqa pre", ["predict"]),
        ("archqa fhir se", ["search", "serve"]),
        ("archqa predict --oper", ["--operating-point"]),
        ("archqa score run --m", ["--metric"]),
        ("archqa --show", ["--show-completion"]),
    ],
)
def test_a_command_and_an_option_are_completed(line: str, offered: list[str]) -> None:
    assert completions(line) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered_too(shell: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        assert "predict" in ask_shell("archqa pre", f"complete_{shell}").stdout


def test_completing_a_command_imports_no_command_and_no_heavy_library() -> None:
    program = PROGRAM.replace(
        "archqa.cli.main import run", "archqa.cli.start import run"
    )
    environment = {
        **os.environ,
        "_ARCHQA_COMPLETE": "complete_bash",
        "COMP_WORDS": "archqa sc",
        "COMP_CWORD": "1",
    }
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    modules = set(process.stdout.splitlines()[-1].split()[1:])
    heavy = {"pandas", "numpy", "onnxruntime", "aiohttp", "openai", "lxml", "jinja2"}
    assert modules.isdisjoint(
        heavy | {f"archqa.cli.{entry.name}" for entry in COMMANDS}
    )


def test_completing_costs_at_most_four_imports_of_the_command_line_library() -> None:
    # Seconds depend on the machine and on what else runs there; a ratio hardly does.
    completing, importing = [], []
    for _ in range(5):
        completing.append(seconds_of(lambda: completions("archqa sc")))
        importing.append(
            seconds_of(
                lambda: subprocess.run(
                    [sys.executable, "-c", "import typer.main"], check=True
                )
            )
        )
    assert min(completing) < 4 * min(importing), (completing, importing)


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds of a core that the processes it starts take."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_the_script_of_a_shell_is_printed() -> None:
    for shell in ("bash", "zsh", "fish"):
        result = archqa("--show-completion", shell)
        assert result.returncode == 0
        assert "_ARCHQA_COMPLETE" in result.stdout


def test_the_script_is_installed_where_the_shell_reads_it(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        result = archqa("--install-completion", "bash")
    assert result.returncode == 0, result.stderr
    assert str(tmp_path) in result.stdout
    assert (
        "_archqa_completion"
        in (tmp_path / ".bash_completions" / "archqa.sh").read_text()
    )


def test_an_unknown_shell_is_named_with_the_nearest() -> None:
    result = archqa("--show-completion", "bsh")
    assert result.returncode == 2
    assert "Did you mean bash?" in result.stderr


def test_the_commands_are_listed_in_groups() -> None:
    text = archqa("--help").stdout
    places = [
        text.index(f"─ {panel} ─")
        for panel in ("Ask", "Run", "Score", "Study", "Record")
    ]
    assert places == sorted(places)
    assert text.index("─ Ask ─") < text.index("│ ask ") < text.index("─ Run ─")
    assert all(entry.panel for entry in COMMANDS)


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-m", "archqa", "--version"]
    process = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout == f"archqa {library.__version__}\n"
