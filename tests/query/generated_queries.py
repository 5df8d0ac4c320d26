"""Random queries about the random patients: every kind of row, field, aggregation and limit."""

from typing import Any, get_args

from hypothesis import strategies as st

from archqa.query import Against, Ago, Companion, Query, Span, ValueTest, Visit, When
from archqa.query.kinds import KINDS
from archqa.query.model import NUMERIC_FIELDS, Aggregation
from archqa.query.scope import Position
from tests.query import invented

NOW = "2131-12-31T23:59:00"
NAMES: dict[str, list[str]] = {
    "lab": [*invented.LABS.values(), "GLUCOSE", "Gluc", "nothing"],
    "vital": [*invented.VITALS.values(), "heart rate", "rate"],
    "output": [*invented.OUTPUTS.values(), " foley"],
    "microbiology_test": [*invented.TESTS.values(), "urine"],
    "organism": [*invented.ORGANISMS.values(), "yeast"],
    "susceptibility": [*invented.ANTIBIOTICS.values()],
    "medication": [*invented.DRUGS.values(), "heparin", "sodium"],
    "procedure": [*invented.PROCEDURES.values(), "infusion"],
    "diagnosis": [*invented.DIAGNOSES.values(), "diabetes"],
    "care_unit": [*invented.WARDS.values(), "trauma sicu (tsicu)"],
}
BENCHMARK_KINDS = sorted([*NAMES, "hospital_visit", "icu_stay", "patient"])
"""Kinds of rows of FHIR-AgentBench, which the reference executor computes."""

_DERIVED = {
    "age",
    "birth_date",
    "marital_status",
    "ethnicity",
    "language",
    "death_time",
    "discharge_destination",
    "admission_type",
    "route",
    "status",
    "reason",
    "frequency",
    "practitioner",
    "place",
    "visit_type",
    "flag",
    "body_site",
    "severity",
    "address",
    "phone",
    "email",
    "alive",
}
"""Fields that the reference executor does not compute."""

_POSITIONS = list(get_args(Position))
_DAYS = [tuple(map(int, day.split("-"))) for day in invented.DAYS]


@st.composite
def spans(draw: Any) -> Span:
    """Any span that the calendar has."""
    relation = draw(st.sampled_from(["in", "since", "after", "before", "until"]))
    year, month, day = draw(st.sampled_from(_DAYS))
    years_back = draw(st.integers(0, 2))
    months_back = draw(st.integers(0, 11))
    clock = draw(st.sampled_from([None, *invented.CLOCKS]))
    forms: list[dict[str, Any]] = [
        {"year": year},
        {"year": year, "month": month},
        {"year": year, "month": month, "day": day, "clock": clock},
        {"years_back": years_back},
        {"years_back": years_back, "month": month},
        {"years_back": years_back, "month": month, "day": min(day, 28)},
        {"months_back": months_back},
        {"months_back": months_back, "day": min(day, 28)},
        {"days_back": draw(st.integers(0, 40))},
    ]
    if draw(st.booleans()):
        return Span(relation=relation, **draw(st.sampled_from(forms)))
    unit = draw(st.sampled_from(["day", "month", "year"]))
    count = draw(st.integers(0, 20))
    return Span(relation="since", ago=Ago(count=count, unit=unit))


def whens() -> st.SearchStrategy[When]:
    """Any visit, up to two spans, any position."""
    which: Any = st.sampled_from(
        ["first", "last", "second", "second_to_last", "current"]
    )
    visit = st.builds(Visit, kind=st.sampled_from(["hospital", "icu"]), which=which)
    return st.builds(
        When,
        visit=st.none() | visit,
        spans=st.lists(spans(), max_size=2).map(tuple),
        position=st.none() | st.sampled_from(_POSITIONS),
    )


@st.composite
def queries(draw: Any, what: str) -> Query:
    """Any valid query about one kind of rows."""
    fields = KINDS[what].returns - _DERIVED
    if what == "lab":
        fields -= {"specimen"}
    returns = draw(st.sampled_from(sorted(fields)))
    summary = draw(st.sampled_from(_aggregations(returns)))
    per = _period(draw, what, summary)
    limits = _limits(draw, what)
    can_compare = returns in NUMERIC_FIELDS and summary in {"each", "sum", "average"}
    if can_compare and per is None and draw(st.booleans()):
        relation = draw(st.sampled_from(["difference", "greater", "less", "equal"]))
        limits["against"] = Against(relation=relation, when=draw(whens()))
    return Query(
        what=what,
        returns=returns,
        summary=summary,
        per=per,
        unit=draw(st.sampled_from(["hour", "day", None])),
        when=draw(whens()),
        now=NOW,
        **limits,
    )


@st.composite
def companions(draw: Any) -> Companion:
    """Any kind of rows that the rows of a query may have to be near."""
    what = draw(st.sampled_from(sorted(set(BENCHMARK_KINDS) - {"patient"})))
    within = draw(
        st.sampled_from(["same_time", "same_day", "same_month", "same_visit", "ever"])
    )
    order = draw(st.sampled_from(["any", "after", "before"]))
    names = _names(draw, NAMES.get(what, []))
    return Companion(
        what=what, names=names, within=within, order=order, when=draw(whens())
    )


def _aggregations(returns: str) -> list[str]:
    """The aggregations that the field has."""
    aggregations = set(get_args(Aggregation)) - {"change"}
    if returns not in NUMERIC_FIELDS:
        aggregations -= {"average", "sum"}
    if returns not in NUMERIC_FIELDS | {"time", "end_time"}:
        aggregations -= {"minimum", "maximum"}
    return sorted(aggregations)


def _period(draw: Any, what: str, summary: str) -> Any:
    has_periods = summary in {"minimum", "maximum", "average", "sum", "count"}
    if what == "patient" or not has_periods:
        return None
    if draw(st.booleans()):
        return draw(st.sampled_from(["day", "month", "year"]))
    return None


def _names(draw: Any, names: list[str]) -> tuple[str, ...]:
    """At most two of the names."""
    if not names:
        return ()
    return tuple(draw(st.lists(st.sampled_from(names), max_size=2)))


def _limits(draw: Any, what: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"names": _names(draw, NAMES.get(what, []))}
    if what != "patient" and draw(st.integers(0, 3)) == 0:
        fields["companion"] = draw(companions())
    if what in {"microbiology_test", "organism", "susceptibility"}:
        fields["specimens"] = _names(draw, ["urine", *invented.SPECIMENS])
        fields["organisms"] = _names(draw, ["yeast", "nothing"])
    if what == "microbiology_test":
        fields["grew"] = draw(st.sampled_from([None, True, False]))
    if what == "medication":
        fields["routes"] = _names(draw, ["iv", "PO", "IM"])
    if what == "hospital_visit":
        fields["admission_sources"] = _names(draw, ["emergency room", "PROCEDURE SITE"])
    if what in {"lab", "vital", "output"}:
        fields["value"] = draw(st.none() | _value_tests())
        fields["extreme"] = draw(st.sampled_from([None, None, "minimum", "maximum"]))
    return fields


def _value_tests() -> st.SearchStrategy[ValueTest]:
    comparisons: Any = st.sampled_from(
        ["greater", "less", "at_least", "at_most", "equal"]
    )
    return st.builds(
        ValueTest, comparison=comparisons, number=st.sampled_from([1, 2.5, 50])
    )
