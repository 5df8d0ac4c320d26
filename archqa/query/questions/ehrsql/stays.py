"""Questions about visits, ICU stays and stays in a care unit, whose rows are the visits."""

from typing import cast

from archqa.errors import NotUnderstood
from archqa.query.model import Aggregation, Query, ReturnedField
from archqa.query.questions.ehrsql.parse_state import NUMERIC_AGGREGATIONS, ParseState
from archqa.query.questions.ehrsql.visits import FoundVisit
from archqa.query.scope import Position, Visit, VisitKind, When

STAY_KINDS = frozenset({"hospital_visit", "icu_stay", "care_unit"})


def build_stay_query(state: ParseState) -> Query:
    """The query of a question about stays. Raises `NotUnderstood`."""
    returns, summary = _output(state)
    position, visit = _position_and_visit(state)
    has_row = position is not None or visit is not None
    if returns == "elapsed" and state.what != "care_unit" and not has_row:
        # "How many hours since he was admitted?" is about a patient who is there now.
        visit = Visit(kind=_visit_kind(state), which="current")
    when = When(visit=visit, spans=state.when.spans, position=position)
    unit = state.requested_unit(returns)
    return state.make_query(returns=returns, summary=summary, when=when, unit=unit)


def _visit_kind(state: ParseState) -> VisitKind:
    if state.what == "icu_stay":
        return "icu"
    return "hospital"


def _position_and_visit(state: ParseState) -> tuple[Position | None, Visit | None]:
    """The position of the row among the stays, and the visit around it."""
    row_visits: list[Visit] = []
    outer_visits: list[Visit] = []
    for found_visit in state.visits:
        if _is_row(state, found_visit):
            row_visits.append(found_visit.visit)
        else:
            outer_visits.append(found_visit.visit)
    position = state.when.position
    outer_visit = next(iter(outer_visits), None)
    for visit in row_visits:
        if visit.which != "current" and position in {None, visit.which}:
            position = visit.which
        else:
            outer_visit = visit
    return position, outer_visit


def _is_row(state: ParseState, found_visit: FoundVisit) -> bool:
    """Whether a visit is the row itself, not around it: "the first stay" in the SICU is."""
    if state.what == "care_unit":
        return not found_visit.is_explicit
    return found_visit.visit.kind == _visit_kind(state)


def _output(state: ParseState) -> tuple[ReturnedField, Aggregation]:
    asks_time = state.mentions("returns", "time", 5)
    if state.mentions("returns", "elapsed") and not state.contains_words("length of|duration"):
        _refuse_since_discharge(state)
        return "elapsed", "each"
    if _asks_admission_type(state):
        return "admission_type", "each"
    if _asks_length_of_stay(state) and not asks_time:
        aggregation = state.lexicon_matches.best("summary", NUMERIC_AGGREGATIONS, 4)
        return "length_of_stay", cast("Aggregation", aggregation or "each")
    if state.mentions("summary", "count", 4) and not asks_time:
        return "time", "count"
    if state.is_yes_no:
        return "time", "exists"
    return _single_field(state), "each"


def _asks_admission_type(state: ParseState) -> bool:
    if state.mentions("returns", "admission_type"):
        return True
    return state.what == "hospital_visit" and state.contains_words("types?")


def _asks_length_of_stay(state: ParseState) -> bool:
    is_count = state.mentions("summary", "count", 6.1)
    return state.mentions("returns", "length_of_stay", 5) and not is_count


def _refuse_since_discharge(state: ParseState) -> None:
    if state.what == "hospital_visit" and _asks_end(state):
        raise NotUnderstood(
            state.text, "asks for the time since a discharge, which a query cannot say"
        )


def _single_field(state: ParseState) -> ReturnedField:
    if state.mentions("returns", "admission_source", 5) and not state.admission_sources:
        return "admission_source"
    asks_destination = state.mentions("returns", "discharge_destination", 5)
    if asks_destination and state.what == "hospital_visit":
        return "discharge_destination"
    asks_unit = state.what == "care_unit" and not state.names
    if asks_unit and not state.mentions("returns", "time", 5):
        return "care_unit"
    if _asks_end(state):
        return "end_time"
    return "time"


def _asks_end(state: ParseState) -> bool:
    """Whether the end is meant; where start and end both occur, the one named first counts."""
    if not state.mentions("returns", "end_time"):
        return False
    first_offsets = state.lexicon_matches.first_offsets
    start = first_offsets.get(("returns", "start"))
    end = first_offsets.get(("returns", "end_time"))
    return start is None or end is None or end <= start
