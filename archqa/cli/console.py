"""Output of the commands: results on stdout, errors and notices on stderr.

All text that a command prints passes here. Notes, replies, ids and file names may hold anything:
their control characters are shown as escapes, and square brackets are no markup.
"""

import json
import logging
import re
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from archqa.errors import ArchqaError
from archqa.safety.text import printable, printable_json

_MAX_REASONS = 10
"""Distinct reasons that are counted by themselves."""

_MESSAGE = re.compile(r"""^\w+\((['"])(.*?)\1[,)]""")
"""The message in the representation of an exception."""


class RetryCounter(logging.Handler):
    """Counts what the library of retries (stamina) logs, by the reason of each retry."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def watch(self, *, verbose: bool) -> None:
        """Count from here on. With `verbose`, each retry is also logged by itself."""
        self._counts.clear()
        logger = logging.getLogger("stamina")
        logger.propagate = verbose
        if self not in logger.handlers:
            logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one retry."""
        reason = _reason(getattr(record, "stamina.caused_by", ""))
        if reason not in self._counts and len(self._counts) >= _MAX_REASONS:
            reason = "other reasons"
        self._counts[reason] += 1

    def take(self) -> list[str]:
        """Return a sentence for each reason, the most frequent first, and forget them."""
        sentences = []
        for reason, count in self._counts.most_common():
            requests = "1 request was" if count == 1 else f"{count} requests were"
            sentences.append(f"{requests} sent again: {reason}")
        self._counts.clear()
        return sentences


def _reason(exception: str) -> str:
    match = _MESSAGE.match(exception)
    return match[2] if match else "a passing fault"


NO_TOKEN_WARNING = (
    "no token is asked for: every program and every user of this machine can read what is served, "
    "and ask and write what the server allows"
)

_retries = RetryCounter()

_WIDTH = shutil.get_terminal_size((120, 40)).columns
"""The width of the terminal, or COLUMNS; 120 where the output goes to a file."""


class PrintableConsole(Console):
    """A console that shows text as it is: without markup, control characters as escapes."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(
            stderr=stderr,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
            width=_WIDTH,
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape before the layout, so that columns are as wide as what is shown."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Escape all that is written, wherever its text comes from."""
        if isinstance(renderable, Text):
            renderable = _printable_text(renderable)
        for segment in super().render(renderable, options):
            # Control segments are Rich's own, such as the movements of a progress bar.
            yield segment if segment.control else _printable_segment(segment)


def _printable_text(text: Text) -> Text:
    plain = printable(text.plain)
    if plain == text.plain:
        return text
    escaped = text.blank_copy(plain)
    escaped.style = text.style
    return escaped


def _printable_segment(segment: Segment) -> Segment:
    return Segment(printable(segment.text), segment.style)


console = PrintableConsole()
err_console = PrintableConsole(stderr=True)


def write_unencodable_characters_as_escapes() -> None:
    """Let no character stop the output: an id may be half a character, a terminal may be ASCII."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def print_line(text: object) -> None:
    """Print a result on stdout, at once."""
    print(printable(str(text)), flush=True)


def print_content(text: str) -> None:
    """Print the content of a file on stdout: unchanged, unless a terminal shows it."""
    if sys.stdout.isatty():
        text = printable(text)
    print(text, end="")


def print_error(error: ArchqaError) -> None:
    """Print what happened and, indented below it, what to do."""
    headline, *advice = printable(str(error)).splitlines() or [type(error).__name__]
    print(f"archqa: {headline}", file=sys.stderr)
    for line in advice:
        print(f"        {line}", file=sys.stderr)


def print_notice(text: str) -> None:
    """Print one line on stderr, unless the command is quiet."""
    if not _State.is_quiet:
        print_problem(text)


def print_problem(text: str) -> None:
    """Print one line on stderr that quiet commands print too: what failed, or leaves the machine."""
    print(f"archqa: {printable(text)}", file=sys.stderr)


def print_count(text: str, *, is_last: bool) -> None:
    """Print a progress line on stderr, over the one before, unless the command is quiet."""
    if _State.is_quiet:
        return
    line_end = "\n" if is_last else "\r"
    print(printable(text), end=line_end, file=sys.stderr, flush=True)


def print_interruption(text: str) -> None:
    """Print that the command was interrupted, on a line of its own: terminals show ^C before it."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print_problem(text)


def forget_retries() -> None:
    """Count repeated requests from here on: one process may run several commands."""
    _retries.take()


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


def is_quiet() -> bool:
    """Whether the running command prints nothing on stderr but errors."""
    return _State.is_quiet


def print_json(content: Any) -> None:
    """Print one line of JSON on stdout."""
    print_json_text(json.dumps(content, ensure_ascii=False))


def print_json_text(text: str) -> None:
    """Print a JSON text on stdout, with control characters as JSON escapes."""
    print(printable_json(text))


def number_table(title: str, *columns: str) -> Table:
    """Return an empty table whose first column is text and whose other columns are numbers."""
    table = Table(title=title, title_justify="left")
    label_column, *number_columns = columns
    table.add_column(label_column)
    for column in number_columns:
        table.add_column(column, justify="right")
    return table


def configure_logging(*, verbose: bool, quiet: bool = False) -> None:
    """Log to stderr: warnings; with `verbose` each request and case too, with `quiet` errors only.

    Retries are counted for `print_retries`, and logged one by one with `verbose`. Record text is
    never logged.
    """
    set_quiet(quiet=quiet)
    level = logging.WARNING
    if verbose or quiet:
        level = logging.INFO if verbose else logging.ERROR
    handler = _StderrHandler()
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    for library in ("httpx2", "httpcore2"):
        # Their debug lines quote whole requests; even --verbose must not show record text.
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger().setLevel(level)
    _retries.watch(verbose=verbose)


class _StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at that moment: a progress bar puts lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


class _PrintableFormatter(logging.Formatter):
    """Lines of the log, with control characters as escapes."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


SECONDS_OF_SILENCE = 1.0


@contextmanager
def shown_when_slow(activity: str) -> Iterator[None]:
    """Show what is done, and for how long on a terminal, if the block takes more than a second."""
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(activity, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(activity: str, ended: threading.Event) -> None:
    if ended.wait(SECONDS_OF_SILENCE):
        return
    if not err_console.is_terminal or is_quiet():
        print_notice(f"{activity} …")
        return
    with err_console.status(activity):
        ended.wait()


class ProgressLine:
    """A line on stderr that counts what is done, a second apart at least."""

    def __init__(self, total: int, things: str) -> None:
        self._total = total
        self._things = things
        self._shown_at = time.monotonic()
        self._is_shown = False

    def show(self, done: int) -> None:
        """Show the count if a second has passed since it was shown."""
        now = time.monotonic()
        if now - self._shown_at >= SECONDS_OF_SILENCE:
            self._shown_at = now
            self._print(done, is_last=False)

    def finish(self, done: int) -> None:
        """End the line, if there is one."""
        if self._is_shown:
            self._print(done, is_last=True)

    def _print(self, done: int, *, is_last: bool) -> None:
        self._is_shown = True
        print_count(f"archqa: {done} of {self._total} {self._things}", is_last=is_last)
