"""From the parse state to the query."""

import re
from typing import Any, NamedTuple, cast

from archqa.errors import NotUnderstood
from archqa.query.model import (
    MEASUREMENT_KINDS,
    Against,
    Aggregation,
    Query,
    ReturnedField,
)
from archqa.query.questions.calendar import FoundSpan
from archqa.query.questions.ehrsql.limits import FoundPosition, FoundVisit
from archqa.query.questions.ehrsql.scan import (
    NUMERIC_AGGREGATIONS,
    ParseState,
)
from archqa.query.scope import Position, Span, Visit, VisitKind, When

TimeItem = FoundVisit | FoundSpan | FoundPosition

_POSITION_ORDER = (
    "first",
    "second",
    "third",
    "third_to_last",
    "second_to_last",
    "last",
)
_FROM_TO = re.compile(r"\bfrom\b.{0,200}\b(?:to|until)\b")
_OPPOSITE_FIRST = re.compile(
    r"^\W*(?:when |as |in |if )?(?:compared|comparison|relative|with respect) (?:to|with)\b"
)
_COMPARED = re.compile(r"\b(?:compared|than|versus|vs|relative|against)\b")


class ComparisonSides(NamedTuple):
    """The time of the query's own side and of the opposite one; None if only one is named."""

    own: When
    opposite: When | None


def split_sides(
    text: str,
    visits: list[FoundVisit],
    spans: list[FoundSpan],
    positions: list[FoundPosition],
    *,
    is_change: bool,
) -> ComparisonSides:
    """Divide visits, spans and positions between two sides, in text order.

    A side without a visit or span takes that of the opposite one. The side named first is the own
    one; in a change "from the first to the last" it is the later one.
    """
    items: list[TimeItem] = [*visits, *spans, *positions]
    items.sort(key=lambda item: item.start)
    boundary = _find_boundary(items)
    if boundary is None:
        return ComparisonSides(_when(items, []), None)
    before = items[:boundary]
    after = items[boundary:]
    named_first = _when(before, after)
    named_last = _when(after, before)
    if _is_opposite_first(text, named_first, named_last, is_change=is_change):
        return ComparisonSides(named_last, named_first)
    return ComparisonSides(named_first, named_last)


def _is_opposite_first(
    text: str, named_first: When, named_last: When, *, is_change: bool
) -> bool:
    if _OPPOSITE_FIRST.search(text) and "than" not in text:
        return True
    if not is_change or _COMPARED.search(text):
        return False
    return bool(_FROM_TO.search(text)) or _rank(named_first) < _rank(named_last)


def _rank(when: When) -> int:
    if when.position is None:
        return 0
    return _POSITION_ORDER.index(when.position)


def _find_boundary(items: list[TimeItem]) -> int | None:
    """Where the later side begins: at the first kind of item that the earlier side has already."""
    has_position = any(isinstance(item, FoundPosition) for item in items)
    for kind in (FoundPosition, FoundSpan, FoundVisit):
        indices = []
        for index, item in enumerate(items):
            if isinstance(item, kind):
                indices.append(index)
        if kind is FoundSpan and len(indices) == 2 and has_position:
            continue
        if len(indices) >= 2:
            return _boundary_between(items, indices[0], indices[1])
    return None


def _boundary_between(items: list[TimeItem], start: int, end: int) -> int:
    """Items between the two belong to the earlier side, unless it has one of that kind."""
    earlier_kinds = set(map(type, items[:start]))
    for index in range(start + 1, end):
        kind = type(items[index])
        if kind in earlier_kinds:
            return index
    kinds_between: set[type] = set()
    for index in range(start + 1, end):
        kind = type(items[index])
        if kind in kinds_between and kind is not FoundSpan:
            return index
        kinds_between.add(kind)
    return end


def _when(items: list[TimeItem], opposite_items: list[TimeItem]) -> When:
    positions = [item.position for item in items if isinstance(item, FoundPosition)]
    scope_items = items
    if len(positions) == len(items):
        scope_items = opposite_items
    visits = [item.visit for item in scope_items if isinstance(item, FoundVisit)]
    spans: list[Span] = []
    for item in scope_items:
        if isinstance(item, FoundSpan):
            spans += item.spans
    return When(
        visit=next(iter(visits), None),
        spans=tuple(spans),
        position=next(iter(positions), None),
    )


Output = tuple[ReturnedField, Aggregation]


def infer_output(state: ParseState) -> Output:
    """The field to return, and its aggregation."""
    if state.mentions("returns", "visit", 5) and not state.visits:
        return "visit", "each"
    if state.mentions("returns", "elapsed"):
        return "elapsed", "each"
    if state.mentions("returns", "time", 4.5):
        if state.what == "medication" and state.mentions("returns", "stop", 4):
            return "end_time", "each"
        return "time", "each"
    if state.mentions("summary", "count", 4) and not _is_total(state):
        return _count_output(state)
    is_maximum = state.value_test is None and state.mentions("summary", "maximum", 4)
    if state.is_yes_no and not state.context.wants_sum and not is_maximum:
        return _default_field(state), "exists"
    if state.what in MEASUREMENT_KINDS:
        return _measurement_output(state)
    if state.what == "medication":
        return _drug_output(state)
    if state.what in {"susceptibility", "microbiology_test"}:
        return _microbiology_field(state), "each"
    return ("time" if _is_time_noun(state) else "name"), "each"


def _microbiology_field(state: ParseState) -> ReturnedField:
    if state.what == "susceptibility":
        if state.contains_words(
            "(?:which|what|^the) (?:organisms?|bacteri\\w+|pathogens?|bugs?)"
        ):
            return "organism"
        return "value" if state.names else "name"
    if state.mentions("returns", "time", 2):
        return "time"
    if state.mentions("returns", "organism", 4):
        return "organism"
    if state.mentions("returns", "specimen", 4) and not state.specimens:
        return "specimen"
    return "name"


def _is_total(state: ParseState) -> bool:
    """ "How many outputs", where the context wants a sum; "how many doses"."""
    if state.what == "output":
        return state.context.wants_sum
    if (
        state.what != "medication"
        or not state.names
        or state.contains_words("times|count")
    ):
        return False
    if state.context.wants_sum:
        return True
    return state.contains_words("how many (?:doses?|mg|milligrams|units|ml)")


def _is_time_noun(state: ParseState) -> bool:
    """The question names the time as a noun, and no other field."""
    if state.mentions("returns", "time", 2):
        return True
    return state.mentions("returns", "time") and not state.mentions(
        "returns", "name", 2
    )


def _count_output(state: ParseState) -> Output:
    counts_orders = state.contains_words(
        "times|often|frequen\\w+|prescriptions?|orders?|occasions?"
    )
    if state.mentions("summary", "distinct"):
        return "name", "count_distinct"
    if state.what == "medication" and not (counts_orders or state.names):
        # "How many drugs" counts drugs; "how many times" counts orders.
        return "name", "count_distinct"
    return _default_field(state), "count"


def _default_field(state: ParseState) -> ReturnedField:
    if state.what in MEASUREMENT_KINDS:
        return "value"
    return "name"


def _measurement_output(state: ParseState) -> Output:
    aggregation = state.numeric_aggregation
    if aggregation is None:
        if state.mentions("returns", "name", 3) and not state.names:
            return "name", "each"
        if state.mentions("returns", "time", 2):
            return "time", "each"
    if state.what != "output" and aggregation in {None, "sum"}:
        return "value", "each"
    if aggregation is not None:
        return "value", aggregation
    if state.positions or state.lexicon_matches.best("per"):
        return "value", "each"
    return "value", "sum"


def _drug_output(state: ParseState) -> Output:
    asks_dose = state.mentions("returns", "dose", 3)
    has_limit = bool(state.names or state.routes)
    if state.mentions("returns", "stop", 4) and has_limit and not asks_dose:
        return "end_time", "each"
    if state.mentions("returns", "route", 4) and not state.routes:
        return "route", "each"
    if state.names and (asks_dose or _is_total(state)):
        return "dose", state.numeric_aggregation or _dose_aggregation(state)
    if _is_time_noun(state) and (has_limit or not state.mentions("returns", "name", 3)):
        return "time", "each"
    return "name", "each"


def _dose_aggregation(state: ParseState) -> Aggregation:
    """ "How much was given" without "first" or "last" is a total."""
    if _is_total(state):
        return "sum"
    asks_amount = state.contains_words("how much|amounts?|quantity")
    if asks_amount and not state.positions:
        return "sum"
    return "each"


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
        if visit.position and position in {None, visit.position}:
            position = visit.position
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
    if state.mentions("returns", "elapsed") and not state.contains_words(
        "length of|duration"
    ):
        if state.what == "hospital_visit" and _asks_end(state):
            raise NotUnderstood(
                state.text,
                "asks for the time since a discharge, which a query cannot say",
            )
        return "elapsed", "each"
    asks_type = state.what == "hospital_visit" and state.contains_words("types?")
    if asks_type or state.mentions("returns", "admission_type"):
        return "admission_type", "each"
    is_count = state.mentions("summary", "count", 6.1)
    asks_length = state.mentions("returns", "length_of_stay", 5) and not is_count
    if asks_length and not asks_time:
        aggregation = state.lexicon_matches.best("summary", NUMERIC_AGGREGATIONS, 4)
        return "length_of_stay", cast("Aggregation", aggregation or "each")
    if state.mentions("summary", "count", 4) and not asks_time:
        return "time", "count"
    if state.is_yes_no:
        return "time", "exists"
    return _single_field(state), "each"


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
        state.what = "hospital_visit"
        state.admission_sources = ("EMERGENCY ROOM",)
        has_open_question = state.contains_words("list|show|give|when|what|which|how")
        asks_time = (
            state.positions or state.visits or state.mentions("returns", "time", 2)
        )
        if not asks_time and not has_open_question:
            # "ER visit this year?" wants a yes or a no.
            state.is_yes_no = True
    if state.what == "patient":
        return _build_patient_query(state)
    if state.what in STAY_KINDS:
        return build_stay_query(state)
    if state.value_test is None and state.what in MEASUREMENT_KINDS | {"medication"}:
        relation = state.lexicon_matches.best("relation", min_weight=2.5)
        comparison = _build_comparison(state, relation) if relation else None
        if comparison is not None:
            return comparison
    return _build_row_query(state)


def _build_patient_query(state: ParseState) -> Query:
    returns = state.lexicon_matches.best("returns", _PATIENT_FIELDS) or "sex"
    if returns == "age" and state.visits and not state.spans:
        visit = state.visits[0].visit
        what = "icu_stay" if visit.kind == "icu" else "hospital_visit"
        when = When(position=visit.position)
        return state.make_query(what=what, returns="age", when=when)
    asks_death = returns == "death_time" and state.is_yes_no
    summary = "exists" if asks_death else "each"
    return state.make_query(returns=returns, summary=summary, when=state.when)


def _build_row_query(state: ParseState) -> Query:
    returns, summary = infer_output(state)
    is_measured = state.what in MEASUREMENT_KINDS
    if (
        summary == "exists"
        and is_measured
        and state.value_test is not None
        and state.positions
    ):
        raise NotUnderstood(
            state.text, "holds one value against a number: ask for the value itself"
        )
    fields: dict[str, Any] = {"returns": returns, "unit": state.requested_unit(returns)}
    if is_measured and returns in {"time", "elapsed"}:
        # "When was the highest potassium": the rows with the extreme value.
        extreme = state.lexicon_matches.best("summary", ("minimum", "maximum"), 4)
        if extreme is not None:
            fields["extreme"] = extreme
    when = state.when
    if summary in {*NUMERIC_AGGREGATIONS, "count"} or returns == "value":
        period = state.lexicon_matches.best("per")
        if period and not (when.position and summary == "each"):
            fields["per"] = period
            summary = "average" if summary == "each" else summary
    is_culture = state.what in {"microbiology_test", "susceptibility"}
    if not (summary == "each" or (summary == "exists" and is_culture)):
        # An aggregation takes all rows, whatever their position.
        when = when.model_copy(update={"position": None})
    is_count = summary in {"count", "count_distinct"}
    if (
        is_count
        and state.what == "microbiology_test"
        and state.mentions("returns", "organism", 4)
    ):
        fields |= {"what": "organism", "returns": "name"}
        summary = "count_distinct"
    return state.make_query(summary=summary, when=when, **fields)


def _as_moments(spans: list[FoundSpan]) -> list[FoundSpan]:
    """ "Between 05:00 and 06:00": two moments to compare, not the time between them."""
    if len(spans) != 2:
        return spans
    moments = []
    for found_span in spans:
        (span,) = found_span.spans
        if span.clock is None:
            return spans
        moment = span.model_copy(update={"relation": "in"})
        moments.append(found_span._replace(spans=(moment,)))
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
        # "How much did it change on the last visit": from the first to the last value there.
        if state.positions:
            raise NotUnderstood(
                state.text, "says one side of a change, but not the other"
            )
        sides = ComparisonSides(
            own=sides.own.model_copy(update={"position": "last"}),
            opposite=sides.own.model_copy(update={"position": "first"}),
        )
    if sides.opposite is None:
        if "than" in state.text.split():
            raise NotUnderstood(state.text, "compares, but says only one side")
        return None
    returns = "dose" if state.what == "medication" else "value"
    against = Against.model_validate({"relation": relation, "when": sides.opposite})
    return state.make_query(returns=returns, when=sides.own, against=against)
