"""What Ctrl-C (SIGINT) and SIGTERM do, from the first import to the last thread.

While modules are imported and while the process ends, nothing can be lost, so it ends at once. A
command in between is interrupted by `KeyboardInterrupt`, ends what it holds, and says how to go on.

Nothing slow is imported here: this runs before all other imports.
"""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

EXIT_CODE = 130

_AT_THE_START = "archqa: interrupted; nothing was begun.\n"

_SENTENCES = {
    "predict": "no case was in progress; `archqa list runs` shows the runs there are.",
    "ablate": "run the same command again: it goes on where it stopped.",
    "tune": "run the same command again: it goes on where it stopped.",
    "ask": "no answer was given; ask again.",
    "score": "scoring did not end; score again.",
    "cases check": "the file was not checked to its end; nothing was written.",
    "serve": "the server has stopped; reviews that were saved stay.",
    "fhir serve": "the server has stopped; the record's file is as it was.",
    "fhir load": "a load is stored whole or not at all; load again.",
    "fhir split": "a split is stored whole or not at all; split again.",
    "batch": (
        "what was submitted stays: `archqa batch status RUN` shows it, "
        "and `archqa batch submit RUN` goes on."
    ),
}
"""How to go on, by command."""

_OTHER_COMMANDS = "the command did not end; run it again."


def end_at_once(message: str = "") -> None:
    """Let a signal end the process from here on, with this message and without any cleanup."""

    def end(_number: int, _frame: FrameType | None) -> None:
        os.write(2, message.encode())
        os._exit(EXIT_CODE)

    _handle(signal.SIGINT, end)
    _handle(signal.SIGTERM, end)


def end_at_once_at_the_start() -> None:
    """Let a signal end the process while it imports its modules."""
    end_at_once(_AT_THE_START)
    sys.unraisablehook = _report_unless_interrupted


def interrupt_commands() -> None:
    """Let a signal raise `KeyboardInterrupt` from here on; asyncio cancels its tasks first."""
    _handle(signal.SIGINT, signal.default_int_handler)
    _handle(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))


def restore_signals() -> None:
    """Handle signals as Python does by itself."""
    _handle(signal.SIGINT, signal.default_int_handler)
    _handle(signal.SIGTERM, signal.SIG_DFL)


def message_of(interruption: KeyboardInterrupt, arguments: Sequence[str]) -> str:
    """What to tell the user of an interrupted command with these arguments.

    The `folder` of the interruption names the run that goes on, if there is one.
    """
    command = _command_of(arguments)
    folder = getattr(interruption, "folder", None)
    if command[:1] == ["predict"] and folder is not None:
        return f"interrupted; {_resumption(arguments, str(folder))}"
    for name in (" ".join(command), " ".join(command[:1])):
        if name in _SENTENCES:
            return f"interrupted; {_SENTENCES[name]}"
    return f"interrupted; {_OTHER_COMMANDS}"


def _resumption(arguments: Sequence[str], folder: str) -> str:
    """The command that goes on with a run: the user's own, so that all settings are the same."""
    from archqa.core.server_urls import without_secrets

    kept = list(_without_run_folder(arguments))
    shown = [without_secrets(argument) for argument in kept]
    command = shlex.join(["archqa", *shown, "--resume", "--out", folder])
    sentence = f"go on with: {command}"
    if shown != kept:
        sentence += "  (with the user, password or query of its URL)"
    if "-" in kept:
        sentence += "  (with the same cases on standard input)"
    return sentence


def _without_run_folder(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments without --resume and --out, which are put at the end."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--out":
            next(rest, None)
        elif argument != "--resume" and not argument.startswith("--out="):
            yield argument


def _command_of(arguments: Sequence[str]) -> list[str]:
    """The command's name, and the word after it, which may be the name of a subcommand."""
    return [argument for argument in arguments if not argument.startswith("-")][:2]


def _handle(number: signal.Signals, handler: Any) -> None:
    """Set a handler; only the main thread may, and in no other one do signals arrive."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def _report_unless_interrupted(unraisable: "sys.UnraisableHookArgs") -> None:
    """Say nothing of a Ctrl-C that reached a destructor or a callback."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
