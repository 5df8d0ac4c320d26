"""The command line run in this process, and a run that needs neither engine nor model."""

import contextlib
import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from archqa.cli import main
from tests.report.synthetic_runs import cases_with_specialties, create_run


class CommandResult(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def archqa(*arguments: str, stdin: str = "", **environment: str) -> CommandResult:
    """Run one command; an unexpected exception is raised, as it would print a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["archqa", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        for name, value in environment.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _exit_code()
    return CommandResult(code, out.getvalue(), err.getvalue())


def synthetic_run(folder: Path, count: int = 2, **options: Any) -> Path:
    """Create a finished run of synthetic cases in a folder."""
    return create_run(folder, cases_with_specialties(count, sentences=6), **options)


def _exit_code() -> int:
    try:
        main.run()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
