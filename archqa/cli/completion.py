"""Completions of the shell, answered from a table of all commands: importing them takes too long.

The table is made from the commands themselves (`make snapshots`), and a test compares the two. The
shells' scripts, and how their questions are answered, are typer's own.
"""

import gc
import inspect
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
import typer.completion

from archqa.core.near_misses import unknown_name

VARIABLE = "_ARCHQA_COMPLETE"
"""The environment variable by which a shell asks for completions, as typer names it."""

TABLE = Path(__file__).parent / "data" / "completion.json"

_PROGRAM = "archqa"
_MAX_RUNS = 100

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def answer() -> int:
    """Print the completions that the shell asks for; return the exit code."""
    gc.disable()  # The process ends at once, and looking for garbage takes a tenth of its time.
    typer.completion.completion_init()
    program = typer.main.get_command(_program())
    return typer.completion.shell_complete(program, {}, _PROGRAM, VARIABLE, os.environ[VARIABLE])


def script_for(shell: str) -> str:
    """Return the script that teaches a shell to ask, `auto` the one that is running.

    Raises `CallerError` for a shell that is not known.
    """
    name = _known_shell(shell)
    return typer.completion.get_completion_script(
        prog_name=_PROGRAM, complete_var=VARIABLE, shell=name
    )


def install_for(shell: str) -> str:
    """Write the script where the shell reads it, and return what was done.

    Raises `CallerError` for a shell that is not known.
    """
    name = _known_shell(shell)
    _, path = typer.completion.install(shell=name, prog_name=_PROGRAM, complete_var=VARIABLE)
    return f"Completion for {name} is in {path}. It takes effect in a new terminal."


def _known_shell(shell: str) -> str:
    name = _running_shell() if shell == "auto" else shell
    if name not in SHELLS:
        raise unknown_name("completion for the shell", name or "(none was found)", SHELLS)
    return name


def _running_shell() -> str:
    """Return the name of the shell that this process was started from; empty if there is none."""
    import shellingham  # A part of typer, and slow.

    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        return Path(os.environ.get("SHELL", "")).name


def read_table() -> dict[str, Any]:
    """Return the table: `commands` by name, and `names` of tasks, pipelines and so on."""
    content: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return content


def _program() -> typer.Typer:
    """Return the commands as typer has them; only those that were typed have options."""
    table = read_table()
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return _group(table["commands"], table["names"], frozenset(typed.split()))


def _group(
    commands: dict[str, Any], names: dict[str, list[str]], typed: frozenset[str]
) -> typer.Typer:
    group = typer.Typer(add_completion=False)
    for name, command in commands.items():
        if "commands" in command:
            below = _group(command["commands"], names, typed)
            group.add_typer(below, name=name, help=command["help"])
        else:
            parameters = command["parameters"] if name in typed else []
            group.command(name, help=command["help"])(_function(parameters, names))
    return group


def _function(parameters: list[dict[str, Any]], names: dict[str, list[str]]) -> Any:
    """Return a function with these parameters, which does nothing: typer reads its signature."""

    def command(**_: object) -> None:
        pass

    described = [_parameter(each, names, number) for number, each in enumerate(parameters)]
    command.__signature__ = inspect.Signature(described)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in described}
    return command


def _parameter(
    parameter: dict[str, Any], names: dict[str, list[str]], number: int
) -> inspect.Parameter:
    complete = _completer(parameter["values"], names)
    declared = parameter["names"]
    annotation: Any = bool if parameter["flag"] else str
    if parameter["many"]:
        annotation = list[str]
    if declared[0].startswith("-"):
        default = typer.Option(
            None, *_declarations(declared), help=parameter["help"], autocompletion=complete
        )
    else:
        default = typer.Argument(None, autocompletion=complete)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(f"p{number}", kind, default=default, annotation=annotation)


def _declarations(names: list[str]) -> list[str]:
    """Return the names of an option; of one that can be negated, as typer writes it."""
    negated = [name for name in names if name.startswith("--no-") and f"--{name[5:]}" in names]
    if not negated:
        return names
    return [f"--{name[5:]}/{name}" for name in negated]


def _completer(
    values: str | list[str], names: dict[str, list[str]]
) -> Callable[[str], list[str]] | None:
    """Return what completes a value; None leaves it to the shell, which names files."""
    known = names.get(values, []) if isinstance(values, str) else values

    def complete(incomplete: str) -> list[str]:
        if values == "runs":
            return list(run_folders(incomplete))
        return [name for name in known if name.startswith(incomplete)]

    return complete if known or values == "runs" else None


def run_folders(typed: str) -> Iterator[str]:
    """Yield the run folders that a path may become: of the folder typed, else of `runs`."""
    start = Path(typed)
    folder = start if typed.endswith("/") or not typed else start.parent
    places = [folder, *([Path("runs")] if not typed else [])]
    found = 0
    for place in places:
        for path in _sub_folders(place):
            if found < _MAX_RUNS and str(path).startswith(typed) and (path / "run.json").is_file():
                found += 1
                yield str(path)


def _sub_folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
