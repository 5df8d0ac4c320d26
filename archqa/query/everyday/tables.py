"""The small language of phrases in tables."""

import itertools
import re
from collections.abc import Iterator

from archqa.query.everyday.tokens import words_of

_PART = re.compile(r"\[([^\]]*)\]|\(([^)]*)\)|([^\s\[\]()]+)")


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
