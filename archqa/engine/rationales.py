"""The reason for a sentence's probability in words: the features that moved it most."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from archqa.core.tables import read_rows

MAX_FOR, MAX_AGAINST = 3, 2
"""Reasons shown for and against a sentence."""
MIN_CONTRIBUTION = 0.08
"""Log-odds below which a feature is not mentioned."""

NOTE_COLUMNS = ("shape.note", "shape.telegraphic")
"""Columns that are equal for all sentences of a note, and so no reason for one of them."""


def rationale(
    columns: tuple[str, ...],
    contributions: NDArray[np.float64],
    shared_concepts: frozenset[str] = frozenset(),
) -> str:
    """Explain one sentence by what each column added to its log-odds, the largest first.

    `shared_concepts` are those the sentence shares with the question. Contributions without a
    phrase in `data/reasons.tsv`, such as not being a heading, are left out.
    """
    by_group = _sum_by_group(columns, contributions)
    ranked = sorted(by_group.items(), key=lambda group_and_sum: -group_and_sum[1])
    supporting = _supporting_phrases(ranked, shared_concepts)
    opposing = _opposing_phrases(ranked)
    parts = []
    if supporting:
        parts.append(f"For: {'; '.join(supporting)}.")
    if opposing:
        parts.append(f"Against: {'; '.join(opposing)}.")
    return " ".join(parts) or "Nothing about it stands out."


def _sum_by_group(columns: tuple[str, ...], contributions: NDArray[np.float64]) -> dict[str, float]:
    """Add up the columns that share a phrase."""
    by_group: dict[str, float] = {}
    for column, contribution in zip(columns, contributions.tolist(), strict=True):
        if column not in NOTE_COLUMNS:
            group = phrase_group(column)
            by_group[group] = by_group.get(group, 0.0) + contribution
    return by_group


def _supporting_phrases(
    ranked: list[tuple[str, float]], shared_concepts: frozenset[str]
) -> list[str]:
    phrases = []
    for group, contribution in ranked:
        phrase = _supporting_phrase(group, shared_concepts)
        if contribution > MIN_CONTRIBUTION and phrase:
            phrases.append(phrase)
    return phrases[:MAX_FOR]


def _opposing_phrases(ranked: list[tuple[str, float]]) -> list[str]:
    lowest = ranked[::-1][:MAX_AGAINST]
    phrases = []
    for group, contribution in lowest:
        if contribution < -MIN_CONTRIBUTION:
            _, opposing = _phrases()[group]
            phrases.append(opposing)
    return phrases


def _supporting_phrase(group: str, shared_concepts: frozenset[str]) -> str:
    if group == "topic" and shared_concepts:
        names = ", ".join(sorted(shared_concepts))
        return f"names {names}, as the question does"
    supporting, _ = _phrases()[group]
    return supporting


@cache
def phrase_group(column: str) -> str:
    """Return the longest prefix of a column's name that `data/reasons.tsv` has phrases for."""
    prefixes = [prefix for prefix in _phrases() if column.startswith(prefix)]
    return max(prefixes, key=len)


@cache
def _phrases() -> dict[str, tuple[str, str]]:
    """Return the phrases for and against by group."""
    phrases = {}
    for group, supporting, opposing in read_rows("engine/data/reasons.tsv", 3):
        phrases[group] = (supporting, opposing)
    return phrases
