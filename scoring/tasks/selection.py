"""Which metrics to compute, and which cases count: the key decides, and what does not fit it is said aloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from ..errors import ScoringError
from ..metric import Metric, MetricMean, parse_metric
from ..scores import Scores, add_mean_score

OnMissing = Literal["floor", "refuse"]


class _HasCase(Protocol):
    @property
    def case_id(self) -> str: ...


Row = TypeVar("Row", bound=_HasCase)


def select_metrics(
    asked: Sequence[str] | None,
    known: Mapping[str, Metric[Any]],
    combined: Mapping[str, Sequence[str]],
) -> dict[str, Metric[Any]]:
    """Name → metric, for leaderboard names, combined scores (their parts) and metrics written out; None for all
    known.

    Raises ScoringError for a metric that is not known.
    """
    if asked is None:
        return dict(known)
    wanted: dict[str, Metric[Any]] = {}
    for name in asked:
        if name in combined:
            wanted |= select_metrics(combined[name], known, combined)
        else:
            wanted[name] = known[name] if name in known else _written_out(name, known)
    return wanted


def add_combined_scores(
    asked: Sequence[str] | None,
    combined: Mapping[str, Sequence[str]],
    relevance: str,
    scores: Scores,
) -> None:
    """Write the combined scores that were asked for; in place of an incomplete `relevance`, the named partial mean.

    A stand-in is never a part of either.
    """
    for name, parts in combined.items():
        if (
            asked is None
            or name in asked
            or any(name in combined[other] for other in asked if other in combined)
        ):
            add_mean_score(name, parts, scores)
            there = [part for part in parts if part in scores.scores]
            if name == relevance and name in scores.missing and there:
                add_mean_score("partial_relevance_score", there, scores)


def check_case_coverage(
    given: Sequence[str], key: Sequence[str], on_missing: OnMissing
) -> list[str]:
    """Warnings for cases of the key without an answer and answers to no case of the key.

    Raises ScoringError with the official words when `on_missing` is `refuse`.
    """
    missing, extra = sorted(set(key) - set(given)), sorted(set(given) - set(key))
    if on_missing == "refuse" and missing:
        raise ScoringError(f"Case IDs in key but not in submission: {_set(missing)}")
    if on_missing == "refuse" and extra:
        raise ScoringError(f"missing {_set(missing)} extra {_set(extra)}")
    warnings = []
    if missing:
        warnings.append(
            f"{len(missing)} of {len(key)} cases have no answer and get the floor: {', '.join(missing)}."
        )
    if extra:
        warnings.append(
            f"{len(extra)} answers are to cases that the key does not have and are not scored: {', '.join(extra)}."
        )
    return warnings


def rows_by_case(
    given: Iterable[Row], key: Iterable[str], unanswered: Callable[[str], Row]
) -> dict[str, Row]:
    """Every case of the key with its answer; a second answer to case 7 becomes row `7#2`: officially both count."""
    answers: dict[str, list[Row]] = {case_id: [] for case_id in key}
    for row in given:
        if row.case_id in answers:
            answers[row.case_id].append(row)
    return {
        case_id if nth == 0 else f"{case_id}#{nth + 1}": row
        for case_id, rows in answers.items()
        for nth, row in enumerate(rows or [unanswered(case_id)])
    }


def _written_out(text: str, known: Mapping[str, Metric[Any]]) -> Metric[Any]:
    try:
        metric = parse_metric(text)
    except ScoringError as error:
        raise ScoringError(f"{error} By leaderboard name: {', '.join(known)}.") from error
    if isinstance(metric, MetricMean):
        raise ScoringError(f"{text!r} is a mean; ask for its parts, or a combined score by name.")
    return metric


def _set(ids: Sequence[str]) -> str:
    """As Python prints a set of strings, in a fixed order."""
    return "{" + ", ".join(map(repr, ids)) + "}" if ids else "set()"
