"""Why a sentence got its probability, in words: the features that moved it most."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from archqa.evidence.tables import rows

SHOWN_FOR, SHOWN_AGAINST = 3, 2
LEAST = 0.08
"""Log-odds below which a feature is not worth a word."""


def rationale(names: tuple[str, ...], added: NDArray[np.float64]) -> str:
    """One sentence from what each column added to the log-odds; columns that say the same are summed."""
    summed: dict[str, float] = {}
    for name, value in zip(names, added.tolist(), strict=True):
        summed[group(name)] = summed.get(group(name), 0.0) + value
    ranked = sorted(summed.items(), key=lambda each: -each[1])
    speaks_for = [_say(name, True) for name, value in ranked[:SHOWN_FOR] if value > LEAST]
    against = [_say(name, False) for name, value in ranked[::-1][:SHOWN_AGAINST] if value < -LEAST]
    parts = [
        f"For: {'; '.join(speaks_for)}." if speaks_for else "",
        f"Against: {'; '.join(against)}." if against else "",
    ]
    return " ".join(part for part in parts if part) or "Nothing about it stands out."


@cache
def group(name: str) -> str:
    """The longest prefix of a column's name that `data/reasons.tsv` puts in words."""
    return max((prefix for prefix in _phrases() if name.startswith(prefix)), key=len, default=name)


def _say(name: str, good: bool) -> str:
    good_words, bad_words = _phrases().get(name, (name, name))
    return good_words if good else bad_words


@cache
def _phrases() -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in rows("reasons.tsv")}
