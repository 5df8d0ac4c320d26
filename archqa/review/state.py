"""The current state of reviews: what each reviewer says of each field, and how they agree."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from archqa.core.judgement import cohens_kappa, observed_agreement
from archqa.review.event import (
    LABELS,
    SUPPORT,
    VERDICT_FIELDS,
    VERDICTS,
    ReviewEvent,
    field_kind,
)

JudgedField = tuple[str, str]
"""A field, and the run whose answer it judges; the run is empty for other fields."""

FieldEvents = dict[JudgedField, ReviewEvent]
"""The latest event of each field that is not cleared."""

_NEVER_COMPARED = "remark"
_VALUES_BY_KIND = {
    "sentence": LABELS,
    "line": SUPPORT,
    **dict.fromkeys(VERDICT_FIELDS, VERDICTS),
}


class Disagreement(NamedTuple):
    """A field of a case that reviewers see differently. `adjudicated` is None until somebody decides.

    `run` is the run whose answer is judged; empty for fields of the note or the question.
    """

    case_id: str
    field: str
    run: str
    by_reviewer: Mapping[str, ReviewEvent]
    adjudicated: ReviewEvent | None

    @property
    def is_open(self) -> bool:
        """Whether nobody has adjudicated it."""
        return self.adjudicated is None


class CaseReviews:
    """The reviews of one case; empty ones of a case that nobody has reviewed."""

    def __init__(self, case_id: str, events: Iterable[ReviewEvent] = ()) -> None:
        self.case_id = case_id
        self.events = tuple(events)

    @cached_property
    def _by_reviewer(self) -> dict[str, FieldEvents]:
        events_by_reviewer: dict[str, list[ReviewEvent]] = {}
        for event in self.events:
            if not event.adjudicated:
                events_by_reviewer.setdefault(event.reviewer, []).append(event)
        states = {}
        for reviewer, events in events_by_reviewer.items():
            state = latest_events(events)
            if state:
                states[reviewer] = state
        return states

    @cached_property
    def _adjudicated(self) -> FieldEvents:
        return latest_events(event for event in self.events if event.adjudicated)

    @property
    def reviewers(self) -> tuple[str, ...]:
        """Who has said something that stands, in the order of their first event."""
        return tuple(self._by_reviewer)

    def reviewer_events(self, reviewer: str, run: str = "") -> dict[str, ReviewEvent]:
        """Field → what a reviewer says of the note, and of the answer of this run."""
        state = self._by_reviewer.get(reviewer, {})
        events = {}
        for (field, judged_run), event in state.items():
            if judged_run in ("", run):
                events[field] = event
        return events

    def events_by_reviewer(self, field: str, run: str = "") -> dict[str, ReviewEvent]:
        """Reviewer → what they say of a field; `run` only for fields that judge an answer."""
        events = {}
        for reviewer, state in self._by_reviewer.items():
            if (field, run) in state:
                events[reviewer] = state[field, run]
        return events

    @cached_property
    def fields(self) -> tuple[JudgedField, ...]:
        """The fields that anybody has said something of."""
        fields: dict[JudgedField, None] = dict.fromkeys(self._adjudicated)
        for state in self._by_reviewer.values():
            fields.update(dict.fromkeys(state))
        return tuple(fields)

    @cached_property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """The fields that reviewers see differently, adjudicated or not. Remarks never differ."""
        disagreements = []
        for field, run in self.fields:
            events = self.events_by_reviewer(field, run)
            values = {event.value for event in events.values()}
            if len(values) > 1 and field != _NEVER_COMPARED:
                adjudicated = self._adjudicated.get((field, run))
                disagreements.append(
                    Disagreement(self.case_id, field, run, events, adjudicated)
                )
        return tuple(disagreements)

    def disagrees(self, run: str) -> bool:
        """Whether reviewers differ on the note or on this run's answer, and nobody adjudicated."""
        open_runs = {
            disagreement.run
            for disagreement in self.disagreements
            if disagreement.is_open
        }
        return not open_runs.isdisjoint(("", run))

    def decision(self, field: str) -> ReviewEvent | None:
        """The adjudicated event of a field, else the one that all its reviewers share, else None."""
        if (field, "") in self._adjudicated:
            return self._adjudicated[field, ""]
        events = list(self.events_by_reviewer(field).values())
        values = {event.value for event in events}
        return events[-1] if len(values) == 1 else None


class CaseSetReviews:
    """The reviews of a case set, by case."""

    def __init__(self, events: Iterable[ReviewEvent]) -> None:
        self.events = tuple(events)

    @cached_property
    def _by_case(self) -> dict[str, CaseReviews]:
        events_by_case: dict[str, list[ReviewEvent]] = {}
        for event in self.events:
            events_by_case.setdefault(event.case_id, []).append(event)
        by_case = {}
        for case_id, events in events_by_case.items():
            by_case[case_id] = CaseReviews(case_id, events)
        return by_case

    def case(self, case_id: str) -> CaseReviews:
        """The reviews of one case; empty ones if there are none."""
        return self._by_case.get(case_id) or CaseReviews(case_id)

    @cached_property
    def cases(self) -> tuple[CaseReviews, ...]:
        """The cases of which something stands, in the order of their first event."""
        return tuple(case for case in self._by_case.values() if case.fields)

    @cached_property
    def reviewers(self) -> tuple[str, ...]:
        """Everybody of whom something stands."""
        names: dict[str, None] = {}
        for case in self.cases:
            names.update(dict.fromkeys(case.reviewers))
        return tuple(names)

    @cached_property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """The fields of all cases that reviewers see differently, adjudicated or not."""
        disagreements: list[Disagreement] = []
        for case in self.cases:
            disagreements += case.disagreements
        return tuple(disagreements)


def latest_events(events: Iterable[ReviewEvent]) -> FieldEvents:
    """The latest event of each field; fields that were cleared are left out."""
    state: FieldEvents = {}
    for event in events:
        state[event.field, event.judged_run] = event
    return {field: event for field, event in state.items() if event.value}


class Agreement(NamedTuple):
    """How two reviewers agree on the fields that both have set.

    kind: `sentence`, `line`, `answer_right` …; label: one value against all others, or "" for all
    values; percent: 0 to 100. kappa: None where both use one and the same value throughout, so that
    chance alone explains everything.
    """

    reviewer_1: str
    reviewer_2: str
    kind: str
    label: str
    field_count: int
    percent: float
    kappa: float | None


def agreement(reviews: CaseSetReviews) -> tuple[Agreement, ...]:
    """The agreement of every pair of reviewers who share fields; adjudications do not count."""
    rows = []
    for reviewer_1, reviewer_2 in combinations(reviews.reviewers, 2):
        pairs_by_kind: dict[str, list[tuple[str, str]]] = {}
        for case in reviews.cases:
            for field, run in case.fields:
                events = case.events_by_reviewer(field, run)
                if reviewer_1 in events and reviewer_2 in events:
                    pair = (events[reviewer_1].value, events[reviewer_2].value)
                    pairs_by_kind.setdefault(field_kind(field), []).append(pair)
        for kind, labels in _VALUES_BY_KIND.items():
            pairs = pairs_by_kind.get(kind)
            if pairs is None:
                continue
            rows.append(_agreement(reviewer_1, reviewer_2, kind, "", pairs))
            for label in labels:
                binary = [
                    (value_1 == label, value_2 == label) for value_1, value_2 in pairs
                ]
                rows.append(_agreement(reviewer_1, reviewer_2, kind, label, binary))
    return tuple(rows)


def _agreement(
    reviewer_1: str,
    reviewer_2: str,
    kind: str,
    label: str,
    pairs: Sequence[tuple[object, object]],
) -> Agreement:
    percent = 100 * observed_agreement(pairs)
    kappa = cohens_kappa(pairs)
    return Agreement(reviewer_1, reviewer_2, kind, label, len(pairs), percent, kappa)
