"""The kinds of judgements that the planner may decline, and the sentence that an answer gives."""

from functools import cache

from archqa.core.tables import read_rows

_LIMIT_OF_LANGUAGE = "The query language"
"""Reasons that begin so are no judgements: the planner hands such a question over instead."""


@cache
def judgement_reasons() -> dict[str, str]:
    """Why a judgement of each kind is declined (`query/everyday/data/reasons.tsv`)."""
    return {
        kind: reason
        for kind, reason in read_rows("query/everyday/data/reasons.tsv", 2)
        if not is_limit_of_language(reason)
    }


def is_limit_of_language(reason: str) -> bool:
    """Whether a question is declined for the queries' sake, so that a model may do better."""
    return reason.startswith(_LIMIT_OF_LANGUAGE)


def judgement_lines() -> tuple[str, ...]:
    """One line for each kind of judgement: its name, and why it is declined."""
    return tuple(f"{kind}: {reason}" for kind, reason in judgement_reasons().items())
