"""Completions of the shell, answered from a table of all commands: importing them takes too long.

The table is made from the commands themselves (`make snapshots`), and a test compares the two. The
scripts that make a shell ask are typer's; nothing but the standard library is imported to answer.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "_ARCHQA_COMPLETE"
"""The environment variable by which typer's scripts ask for completions: `complete_bash`."""

TABLE = Path(__file__).parent / "data" / "completion.json"

_MAX_RUNS = 100


class Offer(NamedTuple):
    """One completion, and what it is; the help may be empty."""

    value: str
    help: str = ""


def answer() -> int:
    """Print the completions that a shell asks for; return the exit code."""
    _, _, shell = os.environ[VARIABLE].partition("_")
    offers = list(_offers(*_words(shell)))
    if os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if offers else 1
    sys.stdout.write(f"{_written(shell, offers)}\n")
    return 0


def read_table() -> dict[str, Any]:
    """Return the table: `commands` by name, and `names` of tasks, pipelines and so on."""
    content: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return content


def _words(shell: str) -> tuple[list[str], str]:
    """Return the whole words after the program, and the one that is being typed."""
    if shell == "bash":
        words = _split(os.environ["COMP_WORDS"])
        position = int(os.environ["COMP_CWORD"])
        return words[1:position], words[position] if position < len(words) else ""
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if not words or line.endswith(" "):
        return words, ""
    return words[:-1], words[-1]


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # A quotation mark that is still open.
        return line.split()


def _offers(words: Sequence[str], typed: str) -> Iterator[Offer]:
    """Yield what the word that is being typed may become after the words before it."""
    table = read_table()
    command, arguments = _command_of(table, words)
    if "commands" in command:
        for name, below in command["commands"].items():
            if name.startswith(typed):
                yield Offer(name, below["help"])
        return
    parameters = command["parameters"]
    waiting = _waiting_option(parameters, arguments)
    if waiting is None and typed.startswith("-"):
        yield from _options(parameters, typed)
        return
    parameter = waiting or _argument(parameters, arguments)
    if parameter is not None:
        for value in _values(parameter["values"], table["names"], typed):
            yield Offer(value)


def _command_of(
    table: Mapping[str, Any], words: Sequence[str]
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return the command that the words name, and the words after it."""
    command = table
    for position, word in enumerate(words):
        if word not in command["commands"]:
            continue
        command = command["commands"][word]
        if "commands" not in command:
            return command, words[position + 1 :]
    return command, ()


def _waiting_option(parameters: Any, arguments: Sequence[str]) -> Any:
    """Return the option whose value comes next; None for an argument."""
    option = _option(parameters, arguments[-1]) if arguments else None
    return None if option is None or option["flag"] else option


def _option(parameters: Any, name: str) -> Any:
    return next(
        (parameter for parameter in parameters if name in parameter["names"] and name[:1] == "-"),
        None,
    )


def _options(parameters: Any, typed: str) -> Iterator[Offer]:
    for parameter in parameters:
        for name in parameter["names"]:
            if name.startswith("--") and name.startswith(typed):
                yield Offer(name, parameter["help"])


def _argument(parameters: Any, arguments: Sequence[str]) -> Any:
    """Return the argument that comes next; None if all are there."""
    filled = 0
    for position, word in enumerate(arguments):
        previous = _waiting_option(parameters, arguments[:position])
        filled += previous is None and not word.startswith("-")
    expected = [parameter for parameter in parameters if not parameter["names"][0].startswith("-")]
    if filled < len(expected):
        return expected[filled]
    return expected[-1] if expected and expected[-1]["many"] else None


def _values(kind: Any, names: Mapping[str, Any], typed: str) -> Iterable[str]:
    """Return the values that begin as typed; none leaves it to the shell, which names files."""
    if kind == "runs":
        return run_folders(typed)
    known = kind if isinstance(kind, list) else names.get(kind, [])
    return [name for name in known if name.startswith(typed)]


def run_folders(typed: str) -> Iterator[str]:
    """Yield the run folders that a path may become: of the folder typed, else of `runs`."""
    start = Path(typed)
    folder = start if typed.endswith("/") or not typed else start.parent
    shown = 0
    for place in [folder] if typed else [folder, Path("runs")]:
        for path in _sub_folders(place):
            is_typed = str(path).isprintable() and str(path).startswith(typed)
            if shown < _MAX_RUNS and is_typed and (path / "run.json").is_file():
                shown += 1
                yield str(path)


def _sub_folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def _written(shell: str, offers: Sequence[Offer]) -> str:
    """Return the offers as typer's script for a shell reads them."""
    if shell == "zsh":
        lines = "\n".join(map(_zsh_line, offers))
        return f"_arguments '*: :(({lines}))'" if offers else "_files"
    if shell == "fish":
        return "\n".join("\t".join(filter(None, map(_on_one_line, offer))) for offer in offers)
    if shell in ("powershell", "pwsh"):
        return "\n".join(f"{offer.value}:::{_on_one_line(offer.help) or ' '}" for offer in offers)
    return "\n".join(offer.value for offer in offers)


def _zsh_line(offer: Offer) -> str:
    value = f'"{_escaped(offer.value)}"'
    return f'{value}:"{_escaped(offer.help)}"' if offer.help else value


def _escaped(text: str) -> str:
    """Return a text so that zsh, which evaluates the answer, takes no part of it for code."""
    for character, written in {'"': '""', "'": "''", "$": "\\$", "`": "\\`"}.items():
        text = text.replace(character, written)
    return _on_one_line(text).replace(":", "\\\\:")


def _on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
