"""The optional parts of an installation: which there are, what each gives, and whether it is there."""

from functools import cache
from importlib import util
from typing import NamedTuple

from archqa.core.tables import read_rows


class Extra(NamedTuple):
    """An extra of `pip install 'archqa[name]'`; `modules` are what it brings, `gives` is a phrase."""

    name: str
    modules: tuple[str, ...]
    gives: str

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that are not installed."""
        return tuple(module for module in self.modules if not _is_installed(module))

    @property
    def pip_line(self) -> str:
        """How to install it."""
        return f"pip install 'archqa[{self.name}]'"


@cache
def known_extras() -> tuple[Extra, ...]:
    """Every extra, in alphabetical order."""
    extras = []
    for name, modules, gives in read_rows("core/data/extras.tsv", 3):
        extras.append(Extra(name, tuple(modules.split()), gives))
    return tuple(extras)


def _is_installed(module: str) -> bool:
    """Whether a module can be found; it is not imported."""
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
