"""The current state of reviews: the last word of each reviewer on each field of each case."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from archqa.review.event import ReviewEvent

FieldEvents = dict[tuple[str, str], ReviewEvent]
"""Field, and run for what judges an answer → the last event that says something of it."""

_NEVER_COMPARED = "remark"


class Disagreement(NamedTuple):
    """A field of a case that reviewers see differently. `adjudicated` is None until somebody decides.

    `run` is the run whose answer is judged; empty for what is said of the note or the question.
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
        own: dict[str, list[ReviewEvent]] = {}
        for event in self.events:
            if not event.adjudicated:
                own.setdefault(event.reviewer, []).append(event)
        states = {reviewer: last_words(events) for reviewer, events in own.items()}
        return {reviewer: state for reviewer, state in states.items() if state}

    @cached_property
    def _adjudicated(self) -> FieldEvents:
        return last_words(event for event in self.events if event.adjudicated)

    @property
    def reviewers(self) -> tuple[str, ...]:
        """Who has said something that stands, in the order of their first event."""
        return tuple(self._by_reviewer)

    def events_of(self, reviewer: str, run: str = "") -> dict[str, ReviewEvent]:
        """Field → what a reviewer says of the note, and of the answer of this run."""
        return _of_run(self._by_reviewer.get(reviewer, {}), run)

    def adjudicated(self, run: str = "") -> dict[str, ReviewEvent]:
        """Field → what was adjudicated of the note, and of the answer of this run."""
        return _of_run(self._adjudicated, run)

    def events_by_reviewer(self, field: str, run: str = "") -> dict[str, ReviewEvent]:
        """Reviewer → what each says of a field; `run` only for what judges an answer."""
        events = {}
        for reviewer, state in self._by_reviewer.items():
            if (field, run) in state:
                events[reviewer] = state[field, run]
        return events

    @cached_property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The fields, with the run for what judges an answer, that anybody has said something of."""
        fields: dict[tuple[str, str], None] = dict.fromkeys(self._adjudicated)
        for state in self._by_reviewer.values():
            fields.update(dict.fromkeys(state))
        return tuple(fields)

    @cached_property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """The fields that reviewers see differently, adjudicated or not. Remarks never differ."""
        return tuple(self._disagreements())

    def decided(self, field: str, run: str = "") -> ReviewEvent | None:
        """The adjudicated word on a field, else the one that all its reviewers share, else None."""
        if (field, run) in self._adjudicated:
            return self._adjudicated[field, run]
        events = list(self.events_by_reviewer(field, run).values())
        return events[-1] if len({event.value for event in events}) == 1 else None

    def _disagreements(self) -> Iterator[Disagreement]:
        for field, run in self.fields:
            events = self.events_by_reviewer(field, run)
            values = {event.value for event in events.values()}
            if len(values) > 1 and field != _NEVER_COMPARED:
                adjudicated = self._adjudicated.get((field, run))
                yield Disagreement(self.case_id, field, run, events, adjudicated)


class CaseSetReviews:
    """The reviews of a case set, by case."""

    def __init__(self, events: Iterable[ReviewEvent]) -> None:
        self.events = tuple(events)

    @cached_property
    def _by_case(self) -> dict[str, CaseReviews]:
        by_case: dict[str, list[ReviewEvent]] = {}
        for event in self.events:
            by_case.setdefault(event.case_id, []).append(event)
        return {case_id: CaseReviews(case_id, events) for case_id, events in by_case.items()}

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
        return tuple(disagreement for case in self.cases for disagreement in case.disagreements)


def last_words(events: Iterable[ReviewEvent]) -> FieldEvents:
    """Field and run → the last event; what was cleared is left out."""
    state: FieldEvents = {}
    for event in events:
        state[event.field, event.answer_of] = event
    return {place: event for place, event in state.items() if event.value}


def _of_run(state: FieldEvents, run: str) -> dict[str, ReviewEvent]:
    return {field: event for (field, of_run), event in state.items() if of_run in ("", run)}
