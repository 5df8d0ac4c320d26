"""Output of the commands: results on stdout, errors and notices on stderr."""

import json
import logging
import shutil
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from archqa.cli.retry_counter import RetryCounter
from archqa.errors import ArchqaError

_retries = RetryCounter()

_WIDTH = shutil.get_terminal_size((120, 40)).columns
"""The width of the terminal, or COLUMNS; 120 where the output goes to a file."""

console = Console(highlight=False, soft_wrap=True, width=_WIDTH)
err_console = Console(stderr=True, highlight=False, soft_wrap=True, width=_WIDTH)


def print_error(error: ArchqaError) -> None:
    """Print what happened and, indented below it, what to do."""
    headline, *advice = str(error).splitlines() or [type(error).__name__]
    print(f"archqa: {headline}", file=sys.stderr)
    for line in advice:
        print(f"        {line}", file=sys.stderr)


def print_notice(text: str) -> None:
    """Print one line on stderr, unless the command is quiet."""
    if not _State.is_quiet:
        print_problem(text)


def print_problem(text: str) -> None:
    """Print one line on stderr about something that failed; quiet commands print it too."""
    print(f"archqa: {text}", file=sys.stderr)


def print_interruption(text: str) -> None:
    """Print that the command was interrupted, on a line of its own: terminals show ^C before it."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print_problem(text)


def print_retries() -> None:
    """Print how many requests were repeated since `configure_logging`, and why."""
    for line in _retries.take():
        print_notice(line)


class _State:
    """What holds for the running command."""

    is_quiet = False


def set_quiet(*, quiet: bool) -> None:
    """Print nothing on stderr but errors from here on, or notices too."""
    _State.is_quiet = quiet


def print_json(content: Any) -> None:
    """Print one line of JSON on stdout."""
    print(json.dumps(content, ensure_ascii=False))


def number_table(title: str, *columns: str) -> Table:
    """Return an empty table whose first column is text and whose other columns are numbers."""
    table = Table(title=title, title_justify="left")
    label_column, *number_columns = columns
    table.add_column(label_column)
    for column in number_columns:
        table.add_column(column, justify="right")
    return table


def configure_logging(*, verbose: bool, quiet: bool = False) -> None:
    """Log to stderr: warnings; with `verbose` progress too, with `quiet` errors only.

    Retries are counted for `print_retries`, and logged one by one with `verbose`. Record text is
    never logged.
    """
    set_quiet(quiet=quiet)
    level = logging.WARNING
    if verbose or quiet:
        level = logging.INFO if verbose else logging.ERROR
    logging.basicConfig(
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for library in ("httpx2", "httpcore2"):
        # Their debug lines quote whole requests; even --verbose must not show record text.
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger().setLevel(level)
    _retries.watch(verbose=verbose)
