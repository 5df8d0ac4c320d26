"""Random queries over the invented wards: every sort of row with everything that can be asked of it."""

from typing import Any, get_args

from hypothesis import strategies as st

from archqa.query import Against, Ago, Companion, Query, Span, ValueTest, Visit, When
from archqa.query.model import NUMERIC_FIELDS, RETURNABLE_FIELDS, Aggregation
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
_DERIVED = {
    "age",
    "birth_date",
    "marital_status",
    "ethnicity",
    "language",
    "death_time",
    "discharge_destination",
}
_DERIVED |= {"admission_type", "route"}
_POSITIONS = list(get_args(Position))
_DAYS = [tuple(map(int, day.split("-"))) for day in invented.DAYS]


@st.composite
def spans(draw: Any) -> Span:
    """Any span that the calendar has."""
    relation = draw(st.sampled_from(["in", "since", "after", "before", "until"]))
    year, month, day = draw(st.sampled_from(_DAYS))
    back = draw(st.integers(0, 2))
    clock = draw(st.sampled_from([None, *invented.CLOCKS]))
    forms: list[dict[str, Any]] = [
        {"year": year},
        {"year": year, "month": month},
        {"year": year, "month": month, "day": day, "clock": clock},
        {"years_back": back},
        {"years_back": back, "month": month},
        {"years_back": back, "month": month, "day": min(day, 28)},
        {"months_back": draw(st.integers(0, 11))},
        {"months_back": draw(st.integers(0, 11)), "day": min(day, 28)},
        {"days_back": draw(st.integers(0, 40))},
    ]
    if draw(st.booleans()):
        return Span(relation=relation, **draw(st.sampled_from(forms)))
    unit = draw(st.sampled_from(["day", "month", "year"]))
    return Span(relation="since", ago=Ago(count=draw(st.integers(0, 20)), unit=unit))


def whens() -> st.SearchStrategy[When]:
    """Any visit, up to two spans, any position."""
    which: Any = st.sampled_from(["first", "last", "second", "second_to_last", "current"])
    visit = st.builds(Visit, kind=st.sampled_from(["hospital", "icu"]), which=which)
    return st.builds(
        When,
        visit=st.none() | visit,
        spans=st.lists(spans(), max_size=2).map(tuple),
        position=st.none() | st.sampled_from(_POSITIONS),
    )


@st.composite
def queries(draw: Any, what: str) -> Query:
    """Any query of one sort that makes sense."""
    returns = draw(
        st.sampled_from(
            sorted(RETURNABLE_FIELDS[what] - _DERIVED - ({"specimen"} if what == "lab" else set()))
        )
    )
    summary = draw(st.sampled_from(_summaries(returns)))
    per = None
    if (
        what != "patient"
        and summary in {"minimum", "maximum", "average", "sum", "count"}
        and draw(st.booleans())
    ):
        per = draw(st.sampled_from(["day", "month", "year"]))
    fields = _limits(draw, what)
    if (
        returns in NUMERIC_FIELDS
        and summary in {"each", "sum", "average"}
        and not per
        and draw(st.booleans())
    ):
        relation = draw(st.sampled_from(["difference", "greater", "less", "equal"]))
        fields["against"] = Against(relation=relation, when=draw(whens()))
    unit = draw(st.sampled_from(["hour", "day", None]))
    when = draw(whens())
    return Query(
        what=what,
        returns=returns,
        summary=summary,
        per=per,
        unit=unit,
        when=when,
        now=NOW,
        **fields,
    )


@st.composite
def companions(draw: Any) -> Companion:
    """Any rows that others may stand beside."""
    what = draw(st.sampled_from(sorted(set(RETURNABLE_FIELDS) - {"patient"})))
    names = tuple(draw(st.lists(st.sampled_from(NAMES[what]), max_size=2))) if what in NAMES else ()
    within: Any = draw(
        st.sampled_from(["same_time", "same_day", "same_month", "same_visit", "ever"])
    )
    order: Any = draw(st.sampled_from(["any", "after", "before"]))
    return Companion(what=what, names=names, within=within, order=order, when=draw(whens()))


def _summaries(returns: str) -> list[str]:
    found = set(get_args(Aggregation)) - (
        set() if returns in NUMERIC_FIELDS else {"average", "sum"}
    )
    return sorted(
        found
        - (set() if returns in NUMERIC_FIELDS | {"time", "end_time"} else {"minimum", "maximum"})
    )


def _limits(draw: Any, what: str) -> dict[str, Any]:
    some: Any = lambda names: tuple(draw(st.lists(st.sampled_from(names), max_size=2)))  # noqa: E731
    fields: dict[str, Any] = {"names": some(NAMES[what]) if what in NAMES else ()}
    if what != "patient" and draw(st.integers(0, 3)) == 0:
        fields["companion"] = draw(companions())
    if what in {"microbiology_test", "organism", "susceptibility"}:
        fields |= {
            "specimens": some(["urine", *invented.SPECIMENS]),
            "organisms": some(["yeast", "nothing"]),
        }
    if what == "microbiology_test":
        fields["grew"] = draw(st.sampled_from([None, True, False]))
    if what == "medication":
        fields["routes"] = some(["iv", "PO", "IM"])
    if what == "hospital_visit":
        fields["admission_sources"] = some(["emergency room", "PROCEDURE SITE"])
    if what in {"lab", "vital", "output"}:
        compared = st.sampled_from(["greater", "less", "at_least", "at_most", "equal"])
        test = st.builds(ValueTest, comparison=compared, number=st.sampled_from([1, 2.5, 50]))
        fields |= {
            "value": draw(st.none() | test),
            "extreme": draw(st.sampled_from([None, None, "minimum", "maximum"])),
        }
    return fields
