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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from archqa.errors import ArchqaError
from archqa.safety.text import printable, printable_json

if TYPE_CHECKING:
    from archqa.llm.limits import CallTally

NO_TOKEN_WARNING = (
    "no token is asked for: every program and every user of this machine can read what is served, "
    "and ask and write what the server allows"
)

SECONDS_OF_SILENCE = 1.0
SECONDS_BETWEEN_NOTICES = 5.0
"""Before a command says that it still works."""

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
        if (
            isinstance(renderable, Text)
            and printable(renderable.plain) != renderable.plain
        ):
            escaped = renderable.blank_copy(printable(renderable.plain))
            escaped.style = renderable.style
            renderable = escaped
        for segment in super().render(renderable, options):
            # Control segments are Rich's own, such as the movements of a progress bar.
            if not segment.control:
                segment = Segment(printable(segment.text), segment.style)
            yield segment


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
    if not _State.is_quiet:
        print(
            printable(text), end="\n" if is_last else "\r", file=sys.stderr, flush=True
        )


def format_dollars(dollars: float | None) -> str:
    """Return a cost with four decimals, or that it is unknown."""
    if dollars is None:
        return "cost unknown"
    return f"${dollars:.4f}"


def count_calls() -> "CallTally":
    """Begin to count the model calls of this process."""
    from archqa.llm.limits import call_tally  # Most commands call no model.

    call_tally.clear()
    return call_tally


def describe_calls(call_tally: "CallTally") -> str:
    """Return the model calls in words; empty before the first."""
    usage = call_tally.usage
    if not usage.calls and not call_tally.pending:
        return ""
    calls = f"{usage.calls} calls done, {call_tally.pending} pending"
    if call_tally.repeated:
        calls += f", {call_tally.repeated} sent again"
    tokens = f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out"
    return f"{calls}; {tokens}; {format_dollars(usage.cost_usd)}"


def print_interruption(text: str) -> None:
    """Print that the command was interrupted, on a line of its own: terminals show ^C before it."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print_problem(text)


class _State:
    """What holds for the running command."""

    is_quiet = False


def set_quiet(*, quiet: bool) -> None:
    """Print nothing on stderr but errors from here on, or notices too."""
    _State.is_quiet = quiet


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


class RetryCounter(logging.Handler):
    """Counts what the library of retries (stamina) logs, by the reason of each retry, so that a
    failing server does not fill the screen.
    """

    _MAX_REASONS = 10
    """Distinct reasons that are counted by themselves."""

    _MESSAGE = re.compile(r"""^\w+\((['"])(.*?)\1[,)]""")
    """The message in the representation of an exception."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def watch(self, *, verbose: bool) -> None:
        """Count from here on. With `verbose`, each retry is also logged by itself."""
        self._counts.clear()
        logger = logging.getLogger("stamina")
        logger.propagate = verbose
        logger.addHandler(self)  # Once, however often it is called.

    def emit(self, record: logging.LogRecord) -> None:
        """Count one retry."""
        message = self._MESSAGE.match(getattr(record, "stamina.caused_by", ""))
        reason = message[2] if message else "a passing fault"
        if reason not in self._counts and len(self._counts) >= self._MAX_REASONS:
            reason = "other reasons"
        self._counts[reason] += 1

    @contextmanager
    def printed(self) -> Iterator[None]:
        """Print how many requests of the block were repeated, and why, the most frequent first."""
        self._counts.clear()
        try:
            yield
        finally:
            for reason, count in self._counts.most_common():
                requests = "1 request was" if count == 1 else f"{count} requests were"
                print_notice(f"{requests} sent again: {reason}")
            self._counts.clear()


retries = RetryCounter()


def configure_logging(*, verbose: bool, quiet: bool = False) -> None:
    """Log to stderr: warnings; with `verbose` each request and case too, with `quiet` errors only.

    Retries are counted, and logged one by one with `verbose`. Record text is never logged.
    """
    set_quiet(quiet=quiet)
    level = logging.WARNING
    if verbose or quiet:
        level = logging.INFO if verbose else logging.ERROR
    handler = _StderrHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level, handlers=[handler])
    for library in ("httpx2", "httpcore2"):
        # Their debug lines quote whole requests; even --verbose must not show record text.
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger().setLevel(level)
    retries.watch(verbose=verbose)


class _StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at that moment: a progress bar puts lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable(self.format(record)), file=sys.stderr)


@contextmanager
def shown_when_slow(activity: str) -> Iterator[Callable[[int, int], None]]:
    """Show what is done if the block takes more than a second, and how much of it.

    The block calls what it gets with the numbers of passages that were read, and of all.
    """
    ended = threading.Event()
    passages = ""
    calls = count_calls()

    def count(done: int, total: int) -> None:
        nonlocal passages
        passages = f"{done} of {total} passages"

    def describe() -> str:
        progress = describe_calls(calls) or passages
        return f"{activity}: {progress}" if progress else f"{activity} …"

    def show() -> None:
        if ended.wait(SECONDS_OF_SILENCE):
            return
        if _State.is_quiet or not err_console.is_terminal:
            shown = ""
            while not ended.wait(SECONDS_BETWEEN_NOTICES if shown else 0):
                text = describe()
                if text != shown:
                    shown = text
                    print_notice(shown)
            return
        with err_console.status(activity) as status:
            while not ended.wait(SECONDS_OF_SILENCE / 4):
                status.update(describe())

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield count
    finally:
        ended.set()
        thread.join()


class ProgressLine:
    """A line on stderr that counts what is done, a second apart at least."""

    def __init__(self, total: int, things: str, done: int = 0) -> None:
        self._total = total
        self._things = things
        self._done = done
        self._shown_at = time.monotonic()
        self._is_shown = False
        self._calls = count_calls()

    def advance(self) -> None:
        """Count one more, and show the count if a second has passed since it was shown."""
        self._done += 1
        now = time.monotonic()
        if now - self._shown_at >= SECONDS_OF_SILENCE:
            self._shown_at = now
            self._is_shown = True
            self._print(is_last=False)

    def finish(self) -> None:
        """End the line, if there is one."""
        if self._is_shown:
            self._print(is_last=True)

    def _print(self, *, is_last: bool) -> None:
        text = f"archqa: {self._done} of {self._total} {self._things}"
        print_count(
            "; ".join(filter(None, [text, describe_calls(self._calls)])),
            is_last=is_last,
        )
