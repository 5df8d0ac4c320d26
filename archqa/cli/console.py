"""Output of the commands: results on stdout, errors and notices on stderr."""

import json
import logging
import shutil
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from archqa.errors import ArchqaError

NO_TOKEN_WARNING = (
    "no token is asked for: every program and every user of this machine can read what is served"
)

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
    """Print one line on stderr."""
    print(f"archqa: {text}", file=sys.stderr)


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


def configure_logging(*, verbose: bool) -> None:
    """Log to stderr: warnings, and with `verbose` progress too. Record text is never logged."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for library in ("httpx2", "httpcore2"):
        # Their debug lines quote whole requests; even --verbose must not show record text.
        logging.getLogger(library).setLevel(logging.WARNING)
