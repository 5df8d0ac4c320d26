"""How the commands speak: errors and notices on stderr, results on stdout, JSON when asked."""

import json
import logging
import shutil
import sys
from typing import Any

from rich.console import Console

from archqa.errors import ArchqaError

_WIDE = shutil.get_terminal_size((120, 40)).columns
"""As wide as the terminal, or COLUMNS; 120 where the output goes to a file."""

console = Console(highlight=False, soft_wrap=True, width=_WIDE)
err_console = Console(stderr=True, highlight=False, soft_wrap=True, width=_WIDE)


def print_error(error: ArchqaError) -> None:
    """What happened, then what to do, indented below it."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    print(f"archqa: {first}", *(f"        {line}" for line in rest), sep="\n", file=sys.stderr)


def print_notice(text: str) -> None:
    """One line on stderr."""
    print(f"archqa: {text}", file=sys.stderr)


def print_json(content: Any) -> None:
    """One JSON object on stdout."""
    print(json.dumps(content, ensure_ascii=False))


def configure_logging(*, verbose: bool) -> None:
    """Logs go to stderr and hold no record text; by default only warnings do."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for chatty in ("openai", "httpx2", "httpcore2"):
        # Their debug lines quote whole requests; even --verbose must not show record text.
        logging.getLogger(chatty).setLevel(logging.WARNING)
