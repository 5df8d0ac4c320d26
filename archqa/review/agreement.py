"""How well reviewers agree: percent agreement and Cohen's kappa, by pair, field and label."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from archqa.core.judgement import cohens_kappa, observed_agreement
from archqa.review.event import LABELS, SUPPORT, VERDICT_FIELDS, VERDICTS, kind_of
from archqa.review.state import CaseSetReviews

_VALUES = {"sentence": LABELS, "line": SUPPORT, **dict.fromkeys(VERDICT_FIELDS, VERDICTS)}

_Pair = tuple[str, str]


class Agreement(NamedTuple):
    """How two reviewers agree on what both have said something of.

    kind: `sentence`, `line`, `answer_right` …; label: one value against the rest, or "" for all
    values. kappa: None where both use one and the same value throughout, so that chance alone
    explains everything.
    """

    first: str
    second: str
    kind: str
    label: str
    n: int
    percent: float
    kappa: float | None


def agreement(reviews: CaseSetReviews) -> tuple[Agreement, ...]:
    """The agreement of every pair of reviewers who share fields; adjudications do not count."""
    agreements: list[Agreement] = []
    for first, second in combinations(reviews.reviewers, 2):
        pairs = _shared_values(reviews, first, second)
        for kind, labels in _VALUES.items():
            if kind in pairs:
                agreements += _of_kind(first, second, kind, labels, pairs[kind])
    return tuple(agreements)


def _shared_values(reviews: CaseSetReviews, first: str, second: str) -> dict[str, list[_Pair]]:
    """Kind of field → the values of both reviewers, of each field that both have set."""
    pairs: dict[str, list[_Pair]] = {}
    for case in reviews.cases:
        for field, run in case.fields:
            events = case.events_by_reviewer(field, run)
            if first in events and second in events:
                pair = (events[first].value, events[second].value)
                pairs.setdefault(kind_of(field), []).append(pair)
    return pairs


def _of_kind(
    first: str, second: str, kind: str, labels: Sequence[str], pairs: Sequence[_Pair]
) -> Iterator[Agreement]:
    yield _agreement(first, second, kind, "", pairs)
    for label in labels:
        binary = [(_is(label, one), _is(label, other)) for one, other in pairs]
        yield _agreement(first, second, kind, label, binary)


def _agreement(first: str, second: str, kind: str, label: str, pairs: Sequence[_Pair]) -> Agreement:
    percent = 100 * observed_agreement(pairs)
    return Agreement(first, second, kind, label, len(pairs), percent, cohens_kappa(pairs))


def _is(label: str, value: str) -> str:
    return label if value == label else "other"
