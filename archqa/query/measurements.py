"""Rows of what was measured: lab results, charted values and outputs.

MIMIC-IV on FHIR tells them apart by the system of the code alone (labs and all microbiology share a category); in
other records the category tells.
"""

from datetime import timedelta

from archqa.fhir import CodeCount, Resource
from archqa.query.chart import reference_id
from archqa.query.elements import number, parts, text
from archqa.query.inquiry import Inquiry, Scope
from archqa.query.naming import NameTest, words_of
from archqa.query.rows import Row, moment

_SYSTEMS = {
    "mimic-d-labitems": "lab",
    "mimic-chartevents-d-items": "vital",
    "mimic-d-items": "output",
    "mimic-microbiology-test": "microbiology_test",
    "mimic-microbiology-organism": "organism",
    "mimic-microbiology-antibiotic": "susceptibility",
}
_CATEGORIES = {"laboratory": "lab", "vital-signs": "vital"}
_SLACK = timedelta(days=2)
"""A server may read a bare date in any zone."""


def measurements(inquiry: Inquiry, what: str, names: tuple[str, ...], scope: Scope) -> list[Row]:
    """Rows of one sort with one of the names. What the server leaves out lies outside of the scope."""
    known = [each for each in inquiry.chart.codes("Observation") if may_be(each, what)] if _asks_words(inquiry) else []
    test = NameTest(names, (each.display for each in known), inquiry.ways, what)
    exact = names if inquiry.ways.names == "equal" else ()
    found = inquiry.chart.observations(
        lambda each: each.element == "code" and may_be(each, what) and test(each.display or each.code),
        exact,
        limits(inquiry, what, scope),
    )
    return [observed(inquiry, each) for each in found if sort_of(each) == what and test(*words_of(each.get("code")))]


def _asks_words(inquiry: Inquiry) -> bool:
    return inquiry.ways.names == "words"


def may_be(code: CodeCount, what: str) -> bool:
    """Whether a code can stand for that sort: of its system, or of one that does not tell."""
    sort = _SYSTEMS.get(_end(code.system))
    return sort == what or (sort is None and what in _CATEGORIES.values())


def sort_of(observation: Resource) -> str:
    """What sort of row an Observation is; empty if it is none."""
    for coding in parts(observation, "code.coding"):
        sort = _SYSTEMS.get(_end(text(coding, "system")))
        if sort == "output" and "valueQuantity" not in observation:
            return ""  # Dates of lines and dressings share the system of outputs.
        if sort:
            return sort
    codes = (text(coding, "code") for coding in parts(observation, "category.coding"))
    return next((_CATEGORIES[code] for code in codes if code in _CATEGORIES), "")


def limits(inquiry: Inquiry, what: str, scope: Scope) -> dict[str, str | list[str]]:
    """What the server can leave out: other visits, and other days give or take two."""
    found: dict[str, str | list[str]] = {}
    if scope.window.low.year > 1:
        found["date"] = [f"ge{scope.window.low - _SLACK:%Y-%m-%d}"]
    if scope.window.high.year < 9999:
        found["date"] = [*found.get("date", []), f"le{scope.window.high + _SLACK:%Y-%m-%d}"]
    if scope.wanted is None or not inquiry.ways.needs_encounter:
        return found
    if what in {"vital", "output"}:
        found["encounter"] = ",".join(scope.visits_within or ["none"])
    elif scope.wanted.kind == "hospital":
        found["encounter"] = scope.visit_id
    return found


def observed(inquiry: Inquiry, observation: Resource) -> Row:
    """An Observation as a row."""
    stay = inquiry.chart.stays.get(reference_id(observation.get("encounter")))
    names = words_of(observation.get("code"))
    value, told, unit, bound = _value(observation)
    if inquiry.ways.celsius and value is not None and unit.strip().lower() in _FAHRENHEIT:
        value, unit = round((value - 32) * 5 / 9, 2), "°C"
    return Row(
        refs=(f"Observation/{observation['id']}",),
        name=names[0] if names else "",
        names=names,
        time=moment(_time(observation)),
        value=value,
        text=told,
        unit=unit,
        bound=bound,
        visit=stay.visit if stay else "",
        stay=stay.icu if stay else "",
    )


_FAHRENHEIT = frozenset({"°f", "f", "[degf]", "degf", "deg f", "?f", "fahrenheit"})


def _value(observation: Resource) -> tuple[float | None, str, str, str]:
    """Number, words, unit, and whether the number is only a bound."""
    for name in ("valueQuantity.value", "valueInteger"):
        value = number(observation, name)
        if value is not None:
            unit = text(observation, "valueQuantity.unit", "valueQuantity.code")
            return value, "", unit, text(observation, "valueQuantity.comparator")
    said = text(observation, "valueString", "valueDateTime")
    return None, said or next(iter(words_of(observation.get("valueCodeableConcept"))), ""), "", ""


def _time(observation: Resource) -> str:
    return text(observation, "effectiveDateTime", "effectivePeriod.start", "effectiveInstant", "issued")


def _end(system: str) -> str:
    return system.rstrip("/").rsplit("/", 1)[-1]
