"""Which metrics are computed and which cases are scored: the key decides, with warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from ..errors import ScoringError
from ..id_lists import list_ids
from ..metric import Metric, MetricMean, parse_metric, suggest
from ..scores import Scores, add_mean_score

OnMissing = Literal["floor", "refuse"]


class _HasCase(Protocol):
    @property
    def case_id(self) -> str: ...


Row = TypeVar("Row", bound=_HasCase)


def select_metrics(
    requested: Sequence[str] | None,
    leaderboard: Mapping[str, Metric[Any]],
    combined: Mapping[str, Sequence[str]],
) -> dict[str, Metric[Any]]:
    """Name → metric, for the requested names; None requests the whole leaderboard.

    A request is a leaderboard name, a combined score (for its parts) or a metric with its settings.
    Raises ScoringError for an unknown metric.
    """
    if requested is None:
        return dict(leaderboard)
    metrics: dict[str, Metric[Any]] = {}
    for name in requested:
        if name in combined:
            metrics |= select_metrics(combined[name], leaderboard, combined)
        elif name in leaderboard:
            metrics[name] = leaderboard[name]
        else:
            metrics[name] = _parse_request(name, leaderboard)
    return metrics


def add_combined_scores(
    requested: Sequence[str] | None,
    combined: Mapping[str, Sequence[str]],
    relevance: str,
    scores: Scores,
) -> None:
    """Write the requested combined scores into `scores`.

    If parts of `relevance` are missing, write `partial_relevance_score` in its place. The score of
    a stand-in encoder is in neither.
    """
    for name, parts in combined.items():
        if not _is_requested(name, requested, combined):
            continue
        add_mean_score(name, parts, scores)
        computed = [part for part in parts if part in scores.scores]
        if name == relevance and name in scores.missing and computed:
            add_mean_score("partial_relevance_score", computed, scores)


def check_case_coverage(
    answered: Sequence[str],
    key: Sequence[str],
    on_missing: OnMissing,
) -> list[str]:
    """Warnings about cases of the key without an answer and answers to no case of the key.

    If `on_missing` is `refuse`, raises ScoringError with the official message instead.
    """
    missing = sorted(set(key) - set(answered))
    extra = sorted(set(answered) - set(key))
    refusal = case_id_refusal(answered, key)
    if on_missing == "refuse" and refusal:
        raise ScoringError(refusal)
    warnings = []
    if missing:
        count = f"{len(missing)} of {len(key)} cases"
        warnings.append(f"{count} have no answer and get the floor: {list_ids(missing)}.")
    if extra:
        problem = "answers are to cases that the key does not have and are not scored"
        warnings.append(f"{len(extra)} {problem}: {list_ids(extra)}.")
    return warnings


def case_id_refusal(answered: Sequence[str | int], key: Sequence[str]) -> str | None:
    """The official message if the case ids of submission and key differ as sets; None if not.

    A number is another id than the text with its digits, as in the official scripts. What they say
    of ids that the key does not have is not known; our words mirror the known ones.
    """
    missing = set(key) - set(answered)
    extra = set(answered) - set(key)
    if missing:
        return f"Case IDs in key but not in submission: {_python_set(missing)}"
    if extra:
        return f"Case IDs in submission but not in key: {_python_set(extra)}"
    return None


def rows_by_case(
    answers: Iterable[Row],
    key: Iterable[str],
    unanswered: Callable[[str], Row],
) -> dict[str, Row]:
    """Every case of the key with its answer, or with `unanswered(case_id)`.

    A second answer to case 7 becomes row `7#2`, since the official scripts count both.
    """
    answers_of: dict[str, list[Row]] = {case_id: [] for case_id in key}
    for answer in answers:
        if answer.case_id in answers_of:
            answers_of[answer.case_id].append(answer)
    rows = {}
    for case_id, case_answers in answers_of.items():
        if not case_answers:
            rows[case_id] = unanswered(case_id)
        for number, answer in enumerate(case_answers, start=1):
            row = case_id if number == 1 else f"{case_id}#{number}"
            rows[row] = answer
    return rows


def _is_requested(
    name: str,
    requested: Sequence[str] | None,
    combined: Mapping[str, Sequence[str]],
) -> bool:
    """Whether a combined score is requested, by itself or as a part of another combined score."""
    if requested is None or name in requested:
        return True
    return any(name in combined.get(request, ()) for request in requested)


def _parse_request(text: str, leaderboard: Mapping[str, Metric[Any]]) -> Metric[Any]:
    try:
        metric = parse_metric(text)
    except ScoringError as error:
        names = ", ".join(leaderboard)
        name, bracket, _ = text.partition("(")
        nearest = "" if bracket else suggest(name, leaderboard)
        raise ScoringError(f"{error} By leaderboard name{nearest}: {names}.") from error
    if isinstance(metric, MetricMean):
        raise ScoringError(f"{text!r} is a mean; ask for its parts, or a combined score by name.")
    return metric


def _python_set(ids: Iterable[str | int]) -> str:
    """The ids as Python prints a set that is not empty, sorted."""
    return "{" + ", ".join(sorted(map(repr, ids))) + "}"
