"""Why a sentence got its probability, in words: the features that moved it most."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from archqa.engine.tables import rows

SHOWN_FOR, SHOWN_AGAINST = 3, 2
LEAST = 0.08
"""Log-odds below which a feature is not worth a word."""

OF_THE_NOTE = ("shape.note", "shape.telegraphic")
"""Columns that are the same for all sentences of a note: no reason for one of them."""


def rationale(
    names: tuple[str, ...], added: NDArray[np.float64], shared: frozenset[str] = frozenset()
) -> str:
    """One sentence from what each column added to the log-odds, the most first.

    `shared` are the concepts that sentence and question both name. What `data/reasons.tsv` has no words for, such as
    being no heading, is no reason.
    """
    ranked = sorted(_summed(names, added).items(), key=lambda each: -each[1])
    speaks_for = [
        words for name, value in ranked if value > LEAST and (words := _speaks_for(name, shared))
    ]
    against = [
        _phrases()[name][1] for name, value in ranked[::-1][:SHOWN_AGAINST] if value < -LEAST
    ]
    parts = [
        f"For: {'; '.join(speaks_for[:SHOWN_FOR])}." if speaks_for else "",
        f"Against: {'; '.join(against)}." if against else "",
    ]
    return " ".join(part for part in parts if part) or "Nothing about it stands out."


def _summed(names: tuple[str, ...], added: NDArray[np.float64]) -> dict[str, float]:
    """Columns that say the same, together."""
    summed: dict[str, float] = {}
    for name, value in zip(names, added.tolist(), strict=True):
        if name not in OF_THE_NOTE:
            summed[group(name)] = summed.get(group(name), 0.0) + value
    return summed


def _speaks_for(name: str, shared: frozenset[str]) -> str:
    named = name == "topic" and shared
    return (
        f"names {', '.join(sorted(shared))}, as the question does" if named else _phrases()[name][0]
    )


@cache
def group(name: str) -> str:
    """The longest prefix of a column's name that `data/reasons.tsv` puts in words."""
    return max((prefix for prefix in _phrases() if name.startswith(prefix)), key=len)


@cache
def _phrases() -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in rows("reasons.tsv")}
