"""What a misspelt name was probably meant to be: one rule for every name that people type."""

from collections.abc import Iterable, Sequence

from archqa.core.id_lists import list_ids
from archqa.errors import CallerError, quoted

MIN_SIMILARITY = 0.6
"""The ratio of `difflib` from which two names count as similar."""

_MAX_COMPARED_CHARACTERS = 64
_MAX_COMPARED_NAMES = 5_000
"""Comparing is quadratic in the length of names; a cohort has a hundred thousand cases."""

_MOST_LISTED = 25


def near_misses(
    name: object,
    names: Iterable[str],
    count: int = 1,
    min_similarity: float = MIN_SIMILARITY,
) -> list[str]:
    """The names most similar to `name`, without regard to case; none if none is similar."""
    import difflib  # Only a mistake needs it.

    by_lower_case: dict[str, str] = {}
    for known_name, _ in zip(names, range(_MAX_COMPARED_NAMES), strict=False):
        by_lower_case.setdefault(known_name.lower(), known_name)
    typed = str(name).lower()[:_MAX_COMPARED_CHARACTERS]
    similar = difflib.get_close_matches(typed, by_lower_case, count, min_similarity)
    return [by_lower_case[lower_case] for lower_case in similar]


def did_you_mean(
    name: object,
    names: Iterable[str],
    count: int = 1,
    min_similarity: float = MIN_SIMILARITY,
) -> str:
    """The question "Did you mean A or B?" with the most similar names; empty if none is similar."""
    similar = near_misses(name, names, count, min_similarity)
    return f"Did you mean {' or '.join(similar)}?" if similar else ""


def advice_on_name(name: object, names: Iterable[str]) -> str:
    """The second line of an error about an unknown name: the nearest name, and all there are."""
    known = list(dict.fromkeys(names))
    listed = ", ".join(known) if len(known) <= _MOST_LISTED else list_ids(known)
    there_are = f"There are: {listed}." if known else "There are none."
    return " ".join(filter(None, (did_you_mean(name, known), there_are)))


def unknown_name(
    kind: str, name: object, names: Iterable[str], place: str = ""
) -> CallerError:
    """The error for a name that is none of `names`: `unknown_name("pipeline", "pannel", ...)`.

    `place` is where it was looked for, such as " for archehr-2025".
    """
    problem = f"There is no {kind} {quoted(name)}{place}."
    return CallerError(f"{problem}\n{advice_on_name(name, names)}")


def no_such_case(case_id: object, ids: Sequence[str]) -> CallerError:
    """The error for a case that a run does not have."""
    advice = f"{did_you_mean(case_id, ids, count=2)} It has: {list_ids(ids)}.".strip()
    return CallerError(f"The run has no case {quoted(case_id)}.\n{advice}")
