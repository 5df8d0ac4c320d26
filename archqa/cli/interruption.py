"""What Ctrl-C (SIGINT) and SIGTERM do, from the first import to the last thread; closed streams.

While modules are imported, nothing can be lost, so the process ends at once. A command is
interrupted by `KeyboardInterrupt`, ends what it holds, and says how to go on. Then the process has
three seconds to end, as it has after a second signal.

Nothing slow is imported here: this runs before all other imports.
"""

import os
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Container, Iterator, Sequence
from types import FrameType
from typing import Any

_EXIT_CODE = 128
"""The exit code of an interrupted command is this plus the number of the signal."""

FILE_CODE = 3
"""The exit code where a file cannot be read or written."""

_NO_OUTPUT = (
    "archqa: standard output is closed; nothing was begun.\n"
    "        Send it to a file, or to /dev/null.\n"
)

_SERVERS = ("serve", "fhir serve", "mcp")
"""Commands that Ctrl-C is the usual end of, and no failure."""

_SECONDS_TO_END = 3.0
"""The time to end what a process holds, after two interruptions, or after its last message."""

_SECONDS_TO_WAKE = (0.05, 0.5)
"""When to wake the main thread after an interruption: it may just have begun to wait for input."""

_AT_THE_START = "archqa: interrupted; nothing was begun.\n"

_SENTENCES = {
    "predict": "no case was in progress; `archqa list runs` shows the runs there are.",
    "ablate": "run the same command again: it goes on where it stopped.",
    "ask": "no answer was given; ask again.",
    "score": "scoring did not end; score again.",
    "cases check": "the file was not checked to its end; nothing was written.",
    "serve": "the server has stopped; reviews that were saved stay.",
    "fhir serve": "the server has stopped; the record's file is as it was.",
    "mcp": "the server has stopped; the record's file is as it was.",
    "fhir load": "a load is stored whole or not at all; load again.",
    "fhir split": "a split is stored whole or not at all; split again.",
    "batch": (
        "what was submitted stays: `archqa batch status RUN` shows it, "
        "and `archqa batch submit RUN` goes on."
    ),
}
"""How to go on, by command."""

_MANY_QUESTIONS = (
    "what was answered is kept: run the same command again, and it goes on from there."
)
"""For `ask --questions`."""

_OTHER_COMMANDS = "the command did not end; run it again."


def prepare_process() -> None:
    """Let a signal end the process while it imports its modules, and a second one later."""

    def end_at_once(number: int, _frame: FrameType | None) -> None:
        os.write(2, _AT_THE_START.encode())
        os._exit(_EXIT_CODE + number)

    _open_closed_streams()
    _handle(signal.SIGINT, end_at_once)
    _handle(signal.SIGTERM, end_at_once)
    sys.unraisablehook = _report_unless_interrupted
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _handle(signal.SIGURG, lambda _number, _frame: None)
    threading.Thread(
        target=_end_after_second_signal, args=(reader,), daemon=True
    ).start()


class _State:
    """The signal that interrupted the command: SIGTERM becomes a SIGINT."""

    signal: int = signal.SIGINT


def _open_closed_streams() -> None:
    """Read nothing where standard input is closed; where the errors are, write them nowhere.

    A file that is opened later would get their numbers, and Python would print errors on stdout.
    """
    closed = []
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.append(os.open(os.devnull, os.O_RDWR))
    if 0 in closed:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if 2 in closed:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if 1 in closed:
        os.write(2, _NO_OUTPUT.encode())
        os._exit(FILE_CODE)


def interrupt_commands() -> None:
    """Let a signal raise `KeyboardInterrupt` from here on; asyncio cancels its tasks first."""
    _handle(signal.SIGINT, signal.default_int_handler)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        _State.signal = number
        signal.raise_signal(signal.SIGINT)

    _handle(signal.SIGTERM, interrupt)


def end_mcp_server_on_signal() -> None:
    """Let a signal end the MCP server, which reads standard input: nothing else ends that read.

    The server must hold nothing that is to be stored.
    """
    text = f"archqa: interrupted; {_SENTENCES['mcp']}\n"

    def end(_number: int, _frame: FrameType | None) -> None:
        os.write(2, text.encode())
        os._exit(0)

    _handle(signal.SIGINT, end)
    _handle(signal.SIGTERM, end)


def finish() -> None:
    """Ignore further signals while an interrupted process ends, and let it end soon."""
    _handle(signal.SIGINT, signal.SIG_IGN)
    _handle(signal.SIGTERM, signal.SIG_IGN)
    # Python would warn of a coroutine that was cut off before it began.
    warnings.simplefilter("ignore")
    _end_soon()


def exit_code_of(arguments: Sequence[str]) -> int:
    """The exit code of an interrupted command with these arguments."""
    return 0 if _known_name(arguments, _SERVERS) else _EXIT_CODE + _State.signal


def message_of(interruption: KeyboardInterrupt, arguments: Sequence[str]) -> str:
    """What to tell the user of an interrupted command with these arguments.

    The `folder` of the interruption names the run that goes on, if there is one.
    """
    name = _known_name(arguments, _SENTENCES)
    folder = getattr(interruption, "folder", None)
    if name == "predict" and folder is not None:
        return f"interrupted; {_resumption(arguments, str(folder))}"
    if name == "ask" and any(
        argument.startswith("--questions") for argument in arguments
    ):
        return f"interrupted; {_MANY_QUESTIONS}"
    return f"interrupted; {_SENTENCES.get(name, _OTHER_COMMANDS)}"


def _resumption(arguments: Sequence[str], folder: str) -> str:
    """The command that goes on with a run: the user's own, so that all settings are the same."""
    from archqa.safety.server_urls import without_secrets

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


def _known_name(arguments: Sequence[str], names: Container[str]) -> str:
    """The name of the command, its subcommand included, if it is one of these; else empty."""
    words = [argument for argument in arguments if not argument.startswith("-")]
    for name in (" ".join(words[:2]), " ".join(words[:1])):
        if name in names:
            return name
    return ""


def _end_after_second_signal(reader: int) -> None:
    """Read the signals that arrive. The main thread may be stuck in what the first one began."""
    interruptions = 0
    while interruptions < 2:
        if os.read(reader, 1)[0] != signal.SIGINT:
            continue
        interruptions += 1
        if interruptions == 1:
            _wake_main_thread()
    _end_soon()


def _wake_main_thread() -> None:
    """Interrupt the main thread's system call, so that Python looks for signals.

    A signal that comes after Python last looked and before a blocking read would else wait for
    the read's end.
    """
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    for seconds in _SECONDS_TO_WAKE:
        time.sleep(seconds)
        signal.pthread_kill(main_thread, signal.SIGURG)


def _end_soon() -> None:
    code = _EXIT_CODE + _State.signal
    timer = threading.Timer(_SECONDS_TO_END, os._exit, (code,))
    timer.daemon = True
    timer.start()


def _handle(number: signal.Signals, handler: Any) -> None:
    """Set a handler; only the main thread may, and in no other one do signals arrive."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


def _report_unless_interrupted(unraisable: "sys.UnraisableHookArgs") -> None:
    """Say nothing of a Ctrl-C that reached a destructor or a callback."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
