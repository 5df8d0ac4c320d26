"""From the parse state to the query."""

from typing import Any

from archqa.errors import NotUnderstood
from archqa.query.model import Against, Query
from archqa.query.questions.ehrsql.comparison import ComparisonSides, split_sides
from archqa.query.questions.ehrsql.parse_state import (
    MEASUREMENT_KINDS,
    NUMERIC_AGGREGATIONS,
    ParseState,
)
from archqa.query.questions.ehrsql.returned_values import infer_output
from archqa.query.questions.ehrsql.stays import STAY_KINDS, build_stay_query
from archqa.query.questions.ehrsql.times import FoundSpan
from archqa.query.scope import Visit, When

_PATIENT_FIELDS = (
    "sex",
    "birth_date",
    "age",
    "marital_status",
    "ethnicity",
    "language",
    "death_time",
)
_CHANGE = r"rose|risen|rise|increased?|fell|fallen|fall|dropped|drop|decreased?|gone|went|changed?"


def build_query(state: ParseState) -> Query:
    """The query of a parse state. Raises `NotUnderstood`, or ValueError for contradictory parts."""
    if state.what == "emergency":
        _resolve_emergency(state)
    if state.what == "patient":
        return _build_patient_query(state)
    if state.what in STAY_KINDS:
        return build_stay_query(state)
    relation = _comparison_relation(state)
    if relation is not None:
        comparison = _build_comparison(state, relation)
        if comparison is not None:
            return comparison
    return _build_row_query(state)


def _resolve_emergency(state: ParseState) -> None:
    state.what = "hospital_visit"
    state.admission_sources = ("EMERGENCY ROOM",)
    has_open_question = state.contains_words("list|show|give|when|what|which|how")
    asks_time = state.positions or state.visits or state.mentions("returns", "time", 2)
    if not asks_time and not has_open_question:
        # "ER visit this year?" wants a yes or a no.
        state.is_yes_no = True


def _build_patient_query(state: ParseState) -> Query:
    returns = state.lexicon_matches.best("returns", _PATIENT_FIELDS) or "sex"
    if returns == "age" and state.visits and not state.spans:
        return _build_age_query(state, state.visits[0].visit)
    summary = "each"
    if returns == "death_time" and state.is_yes_no:
        summary = "exists"
    return state.make_query(returns=returns, summary=summary, when=state.when)


def _build_age_query(state: ParseState, visit: Visit) -> Query:
    what = "hospital_visit"
    if visit.kind == "icu":
        what = "icu_stay"
    when = When()
    if visit.which != "current":
        when = When(position=visit.which)
    return state.make_query(what=what, returns="age", when=when)


def _build_row_query(state: ParseState) -> Query:
    returns, summary = infer_output(state)
    _refuse_single_value_test(state, summary)
    fields: dict[str, Any] = {
        "returns": returns,
        "summary": summary,
        "unit": state.requested_unit(returns),
        **_extreme_field(state, returns),
    }
    period = _period(state, returns, summary)
    if period and not (state.when.position and summary == "each"):
        fields["per"] = period
        if summary == "each":
            fields["summary"] = "average"
    fields["when"] = _row_when(state, fields["summary"])
    if _counts_organisms(state, fields["summary"]):
        fields |= {"what": "organism", "returns": "name", "summary": "count_distinct"}
    return state.make_query(**fields)


def _refuse_single_value_test(state: ParseState, summary: str) -> None:
    if summary != "exists" or state.what not in MEASUREMENT_KINDS:
        return
    if state.value_test is not None and state.positions:
        raise NotUnderstood(
            state.text, "holds one value against a number: ask for the value itself"
        )


def _period(state: ParseState, returns: str, summary: str) -> str | None:
    if summary in {*NUMERIC_AGGREGATIONS, "count"} or returns == "value":
        return state.lexicon_matches.best("per")
    return None


def _row_when(state: ParseState, summary: str) -> When:
    """The time of the rows; an aggregation takes all of them, without a position."""
    is_culture = state.what in {"microbiology_test", "susceptibility"}
    if summary == "each" or (summary == "exists" and is_culture):
        return state.when
    return state.when.model_copy(update={"position": None})


def _counts_organisms(state: ParseState, summary: str) -> bool:
    if state.what != "microbiology_test" or summary not in {"count", "count_distinct"}:
        return False
    return state.mentions("returns", "organism", 4)


def _extreme_field(state: ParseState, returns: str) -> dict[str, str]:
    """ "When was the highest potassium": the rows with the extreme value."""
    extreme = state.lexicon_matches.best("summary", ("minimum", "maximum"), 4)
    asks_time = returns in {"time", "elapsed"} and state.what in MEASUREMENT_KINDS
    if extreme is None or not asks_time:
        return {}
    return {"extreme": extreme}


def _comparison_relation(state: ParseState) -> str | None:
    """The relation between two times; a comparison with a number is none."""
    if state.value_test is not None or state.what not in MEASUREMENT_KINDS | {"medication"}:
        return None
    return state.lexicon_matches.best("relation", min_weight=2.5)


def _as_moments(spans: list[FoundSpan]) -> list[FoundSpan]:
    """ "Between 05:00 and 06:00": two moments to compare, not the time between them."""
    if len(spans) != 2:
        return spans
    moments = []
    for found_span in spans:
        if found_span.span.clock is None:
            return spans
        moment = found_span.span.model_copy(update={"relation": "in"})
        moments.append(found_span._replace(span=moment))
    return moments


def _build_comparison(state: ParseState, relation: str) -> Query | None:
    sides = split_sides(
        state.text,
        state.visits,
        _as_moments(state.spans),
        state.positions,
        is_change=state.contains_words(_CHANGE),
    )
    if sides.opposite is None and relation == "difference":
        sides = _change_within(state, sides.own)
    if sides.opposite is None:
        if "than" in state.text.split():
            raise NotUnderstood(state.text, "compares, but says only one side")
        return None
    returns = "value"
    if state.what == "medication":
        returns = "dose"
    against = Against.model_validate({"relation": relation, "when": sides.opposite})
    return state.make_query(returns=returns, when=sides.own, against=against)


def _change_within(state: ParseState, when: When) -> ComparisonSides:
    """ "How much did it change on the last visit": from the first to the last value there."""
    if state.positions:
        raise NotUnderstood(state.text, "says one side of a change, but not the other")
    return ComparisonSides(
        own=when.model_copy(update={"position": "last"}),
        opposite=when.model_copy(update={"position": "first"}),
    )
