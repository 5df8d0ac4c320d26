"""A group of commands that imports the module of a command only when that command runs."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class CommandEntry(NamedTuple):
    """A command's name, the module that defines it, its line in the list of commands, and the
    panel of that list.

    The module has either the function, or a group of commands called `app`.
    """

    name: str
    module: str
    help: str
    panel: str = ""
    function: str = "command"


class LazyCommand(TyperCommand):
    """Stands in for a command in lists and completions, without its module's imports."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, help=entry.help, rich_help_panel=entry.panel or None)
        self._entry = entry

    def load(self) -> Any:
        """Import the module and return the command that it defines."""
        with _without_garbage_collection():
            module = import_module(self._entry.module)
        if hasattr(module, "app"):
            return get_group(module.app)
        single = typer.Typer(add_completion=False)
        single.command(self._entry.name)(getattr(module, self._entry.function))
        return get_command(single)


class LazyGroup(TyperGroup):
    """A group whose commands are listed in `entries`."""

    entries: ClassVar[Sequence[CommandEntry]] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {entry.name: LazyCommand(entry) for entry in self.entries}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that the arguments name, and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command = command.load()
        return name, command, rest


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Imports leave almost no garbage, and looking for it takes a tenth of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
