"""The help of every command has an example, and every example is a command that there is."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from archqa.cli.main import COMMANDS, LazyCommand


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command below a group, by its whole name."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for below, each in command.commands.items():
        yield from leaves(each, f"{name} {below}")


ALL = dict(
    pair for entry in COMMANDS for pair in leaves(LazyCommand(entry).load(), entry.name)
)
SHOWN = {name: command for name, command in ALL.items() if not command.hidden}


def examples(command: Any) -> list[str]:
    names = "|".join(entry.name for entry in COMMANDS)
    lines = re.findall(
        rf"^ *(archqa (?:{names}) .*|archqa \w+)$", command.help or "", re.MULTILINE
    )
    return [line.strip() for line in lines]


@pytest.mark.parametrize("name", SHOWN)
def test_the_help_of_a_command_has_an_example_of_it(name: str) -> None:
    assert any(line.startswith(f"archqa {name}") for line in examples(SHOWN[name]))


@pytest.mark.parametrize("name", SHOWN)
def test_the_options_of_an_example_are_those_of_its_command(name: str) -> None:
    for line in examples(SHOWN[name]):
        words = shlex.split(line, comments=True)[1:]
        command = next(
            ALL[" ".join(words[:count])]
            for count in (1, 2, 3)
            if " ".join(words[:count]) in ALL
        )
        options = set()
        for parameter in command.params:
            options.update(parameter.opts, parameter.secondary_opts)
        typed = {
            word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)
        }
        assert typed <= options, line
        assert "(" not in " ".join(word for word in words if "=" not in word), line
