"""Runs commands in this process while the disk fails, and says what they left behind."""

import contextlib
import io
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from archqa.cli import main


class CommandResult(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def archqa(
    *arguments: object, cwd: Path | None = None, **environment: str
) -> CommandResult:
    """Run the command line in this process; an exception that is not an exit is raised."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["archqa", *map(str, arguments)])
        patch.setenv("COLUMNS", "160")
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _exit_code()
    return CommandResult(code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    try:
        main.run()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel lets no file of this process grow beyond `size` bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def no_more_open_files() -> Iterator[None]:
    """Opening one more file fails, as in a process that has too many open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open("/dev/null", os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_one_storage_error(result: CommandResult, *reasons: str) -> None:
    """The last two lines are an error with one of the reasons, and advice; exit code 3."""
    assert result.returncode == 3, result
    assert "Traceback" not in result.stderr
    headline, advice = result.stderr.splitlines()[-2:]
    assert headline.startswith("archqa: ")
    assert any(reason in headline for reason in reasons), headline
    assert advice.startswith("        ")
