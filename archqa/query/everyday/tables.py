"""The tables in `data/`, and the small language of their phrases."""

import itertools
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from archqa.query.everyday.tokens import words_of

_PART = re.compile(r"\[([^\]]*)\]|\(([^)]*)\)|([^\s\[\]()]+)")


@cache
def read_table(name: str) -> tuple[tuple[str, ...], ...]:
    """The lines of a table, without comments and empty lines, split at tabs."""
    text = files("archqa.query.everyday").joinpath("data", name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(tuple(map(str.strip, re.split(r"\t+", line))) for line in lines)


def phrases_of(cell: str) -> Iterator[tuple[str, ...]]:
    """The phrases that a cell stands for, as words.

    `|` separates phrases; `[the/a]` is optional, `(er/ed)` is one of these.
    """
    for pattern in cell.split("|"):
        for choice in itertools.product(*_choices(pattern)):
            yield words_of(" ".join(choice))


def _choices(pattern: str) -> Iterator[list[str]]:
    for optional, alternatives, word in _PART.findall(pattern):
        if optional:
            yield ["", *optional.split("/")]
        elif alternatives:
            yield alternatives.split("/")
        else:
            yield [word]
