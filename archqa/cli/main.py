"""The `archqa` command: its subcommands, and the exit code of each kind of error."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.completion
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from archqa.cli import interruption
from archqa.cli.console import (
    print_error,
    print_interruption,
    print_line,
    retries,
    set_quiet,
    write_unencodable_characters_as_escapes,
)
from archqa.core.near_misses import did_you_mean
from archqa.core.version import __version__
from archqa.errors import ArchqaError, ServerUnavailable, StorageError
from archqa.safety.files import storage_error
from archqa.safety.server_urls import without_secrets
from archqa.safety.text import printable


class CommandEntry(NamedTuple):
    """A command's name, its line in the list of commands, and the panel of that list.

    The module of that name has either a function `command`, or a group of commands called `app`.
    """

    name: str
    help: str
    panel: str


class LazyCommand(TyperCommand):
    """Stands in for a command in lists and completions, without its module's imports."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, help=entry.help, rich_help_panel=entry.panel)
        self._entry = entry

    def load(self) -> Any:
        """Import the module and return the command that it defines."""
        # Imports leave almost no garbage, and looking for it takes a tenth of their time.
        gc.disable()
        try:
            module = import_module(f"archqa.cli.{self._entry.name}")
        finally:
            gc.enable()
        if hasattr(module, "app"):
            return get_group(module.app)
        single = typer.Typer(add_completion=False)
        single.command(self._entry.name)(module.command)
        return get_command(single)


HELP = (
    "Answers questions from a patient's own record and shows, for every claim, "
    "the evidence it rests on."
)
EPILOG = "First steps:  archqa predict mini   then   archqa score RUN   and   archqa show RUN CASE"

_PANELS = {
    "Ask": {
        "ask": "Answer questions from a note or a patient's record, with evidence for every line.",
        "brief": "Summarise a patient's record for a visit on one page, each line with what it rests on.",
        "serve": "Show runs in a browser, review answers, and ask questions about a note or a patient.",
    },
    "Run": {
        "predict": "Answer every case of a file, each claim with its evidence.",
        "show": "Show a run's cases, or one case with its answer, evidence and every agent's verdict.",
        "report": "Write one HTML file with the answers, their evidence, confidence and errors.",
        "export": "Write a run's answers as a submission or a table, or for another tool.",
        "merge": "Merge the parts of one run, in the order of the case file. The parts stay as they are.",
        "batch": "Runs by the Batch API: half the price, up to a day a stage.",
        "cases": "Case files.",
    },
    "Score": {
        "score": "Score a run or a submission by the task's official rules, next to baselines.",
        "compare": "Compare two runs of the same cases by a paired test over cases.",
    },
    "Study": {
        "ablate": "Run the paper's ablations: labels x experts x context (Table 1), and the two answer "
        "strategies (Table 2).",
        "evaluate": "Measurements on sets of your own.",
    },
    "Record": {
        "fhir": "FHIR records.",
        "mcp": "Serve a record to a client of the Model Context Protocol: search, read, query, ask, brief.",
    },
    "Set up": {
        "doctor": "Check the installation: engine, prompts, cache, model server, metrics and optional parts.",
        "list": "List pipelines, tasks, agents, backends, prompts, metrics, formats, prices, settings, runs "
        "or the server's models.",
        "config": "The settings in force.",
        "cache": "The cache of model replies.",
    },
}
"""The panels of `archqa --help`: name of a command → its line there."""

COMMANDS = tuple(
    CommandEntry(name, line, panel)
    for panel, commands in _PANELS.items()
    for name, line in commands.items()
)
"""Every subcommand, in the order of `archqa --help`."""


class ArchqaCommands(TyperGroup):
    """The subcommands of `archqa`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {entry.name: LazyCommand(entry) for entry in COMMANDS}

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **more: Any
    ) -> Any:
        """Parse the arguments before the subcommand."""
        if args in (["--install-completion"], ["--show-completion"]):
            args = [*args, Shell.AUTO]
        with _printable_usage_errors():
            return super().make_context(info_name, args, *rest, **more)

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        """Import the command; from then on there is something to interrupt."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command = command.load()
        interruption.interrupt_commands()
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of the subcommand and run it.

        Typer would end an interrupted one without a word.
        """
        set_quiet(quiet=False)
        with retries.printed():
            try:
                with _printable_usage_errors():
                    return super().invoke(ctx)
            except KeyboardInterrupt as interrupted:
                interruption.finish()
                print_interruption(interruption.message_of(interrupted, sys.argv[1:]))
                raise typer.Exit(interruption.exit_code_of(sys.argv[1:])) from None


class Shell(StrEnum):
    """A shell that typer completes for; `auto` is the one that started this process."""

    AUTO = "auto"
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


_typer: Any = typer.completion
"""Typer does not export the functions of its completion by their types."""

_USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]
"""The base of typer's errors about arguments, which it does not export."""

_EXTRA_ARGUMENTS = re.compile(r"(Got unexpected extra argument\S*) \(.*\)", re.DOTALL)
"""How typer quotes surplus arguments: the words of a question that has no quotation marks."""

_NO_CHOICE = re.compile(r"'(?P<typed>[^']*)' is not one of (?P<choices>.*)", re.DOTALL)
"""How typer says that a value is none of a few."""

_QUOTATION_ADVICE = "Put a question, and a name with spaces, into quotation marks."


@contextmanager
def _printable_usage_errors() -> Iterator[None]:
    """Escape the arguments that an error quotes, and leave out secrets of URLs and surplus words."""
    try:
        yield
    except _USAGE_ERROR as error:
        message = _EXTRA_ARGUMENTS.sub(rf"\1. {_QUOTATION_ADVICE}", error.message)
        no_choice = _NO_CHOICE.search(message)
        if no_choice is not None:
            # Name the value that a misspelt one was meant to be: `--format htlm`.
            choices = re.findall(r"'([^']*)'", no_choice["choices"])
            message = f"{message} {did_you_mean(no_choice['typed'], choices)}".rstrip()
        error.message = printable(without_secrets(message))
        raise


app = typer.Typer(
    name="archqa",
    cls=ArchqaCommands,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True, help=HELP)
def main(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit."
    ),
    install_completion: Annotated[
        Shell | None,
        typer.Option(
            metavar="[SHELL]",
            help="Let the shell complete commands and options; default: this shell.",
        ),
    ] = None,
    show_completion: Annotated[
        Shell | None,
        typer.Option(
            metavar="[SHELL]",
            help="Print the script that does it: bash, zsh, fish, powershell.",
        ),
    ] = None,
) -> None:
    """Do what the options before a command ask for."""
    if version:
        print_line(f"archqa {__version__}")
        raise typer.Exit
    for shell, action in (
        (install_completion, _typer.install_callback),
        (show_completion, _typer.show_callback),
    ):
        if shell is not None:
            # Without a name, typer looks which shell is running. The callbacks end the process.
            action(context, None, True if shell is Shell.AUTO else shell.value)


def run() -> None:
    """Run the command line: an expected error becomes one message and its exit code."""
    write_unencodable_characters_as_escapes()
    # Typer registers its shells only together with its two options, which accept no SHELL.
    _typer.completion_init()
    try:
        try:
            # The name is a part of the completion scripts, also where `python -m archqa` prints them.
            app(prog_name="archqa")
        finally:
            _flush_output()
    except ArchqaError as error:
        _end(error)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (ConnectionError, TimeoutError) as error:
        _end(
            ServerUnavailable(
                f"A connection failed ({type(error).__name__}).\nTry it again."
            )
        )
    except OSError as error:
        _end(storage_error(error))
    except Exception as error:
        # SQLite's other errors are mistakes of archqa. It is imported if anything has used it.
        sqlite3 = sys.modules.get("sqlite3")
        if not sqlite3 or type(error) not in (
            sqlite3.DatabaseError,
            sqlite3.OperationalError,
        ):
            raise
        _end(
            StorageError(
                f"A database cannot be read or written: {error}.\nCheck the disk."
            )
        )


def _flush_output() -> None:
    """Let what was printed leave this process. Raises `OSError` where it cannot."""
    try:
        sys.stdout.flush()
    except OSError:
        # What is still to be printed goes nowhere: Python would fail on it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _end(error: ArchqaError) -> None:
    print_error(error)
    sys.exit(error.exit_code)
