"""Rows of what was measured: lab results, charted values and outputs.

MIMIC-IV on FHIR tells them apart by the system of the code alone (labs and all microbiology share a category); in
other records the category tells.
"""

from datetime import timedelta

from archqa.fhir import CodeCount, Resource
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.elements import number_at, objects_at, text_at
from archqa.query.execution.names import NameMatcher, concept_names
from archqa.query.execution.rows import Row, parse_datetime

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


def measurements(
    inquiry: ExecutionContext, what: str, names: tuple[str, ...], scope: Scope
) -> list[Row]:
    """Rows of one sort with one of the names. What the server leaves out lies outside of the scope."""
    known = (
        [each for each in inquiry.chart.codes("Observation") if code_matches_kind(each, what)]
        if _asks_words(inquiry)
        else []
    )
    test = NameMatcher(names, (each.display for each in known), inquiry.ways, what)
    exact = names if inquiry.ways.names == "equal" else ()
    found = inquiry.chart.observations(
        lambda each: (
            each.element == "code"
            and code_matches_kind(each, what)
            and test(each.display or each.code)
        ),
        exact,
        limits(inquiry, what, scope),
    )
    return [
        observation_row(inquiry, each)
        for each in found
        if observation_kind(each) == what and test(*concept_names(each.get("code")))
    ]


def _asks_words(inquiry: ExecutionContext) -> bool:
    return inquiry.ways.names == "words"


def code_matches_kind(code: CodeCount, what: str) -> bool:
    """Whether a code can stand for that sort: of its system, or of one that does not tell."""
    sort = _SYSTEMS.get(_end(code.system))
    return sort == what or (sort is None and what in _CATEGORIES.values())


def observation_kind(observation: Resource) -> str:
    """What sort of row an Observation is; empty if it is none."""
    for coding in objects_at(observation, "code.coding"):
        sort = _SYSTEMS.get(_end(text_at(coding, "system")))
        if sort == "output" and "valueQuantity" not in observation:
            return ""  # Dates of lines and dressings share the system of outputs.
        if sort:
            return sort
    codes = (text_at(coding, "code") for coding in objects_at(observation, "category.coding"))
    return next((_CATEGORIES[code] for code in codes if code in _CATEGORIES), "")


def limits(inquiry: ExecutionContext, what: str, scope: Scope) -> dict[str, str | list[str]]:
    """What the server can leave out: other visits, and other days give or take two."""
    found: dict[str, str | list[str]] = {}
    if scope.window.low.year > 1:
        found["date"] = [f"ge{scope.window.low - _SLACK:%Y-%m-%d}"]
    if scope.window.high.year < 9999:
        found["date"] = [*found.get("date", []), f"le{scope.window.high + _SLACK:%Y-%m-%d}"]
    if scope.wanted is None or not inquiry.ways.requires_encounter:
        return found
    if what in {"vital", "output"}:
        found["encounter"] = ",".join(scope.icu_stay_ids or ["none"])
    elif scope.wanted.kind == "hospital":
        found["encounter"] = scope.visit_id
    return found


def observation_row(inquiry: ExecutionContext, observation: Resource) -> Row:
    """An Observation as a row."""
    stay = inquiry.chart.stays.get(reference_id(observation.get("encounter")))
    names = concept_names(observation.get("code"))
    value, told, unit, bound = _value(observation)
    if (
        inquiry.ways.convert_to_celsius
        and value is not None
        and unit.strip().lower() in _FAHRENHEIT
    ):
        value, unit = round((value - 32) * 5 / 9, 2), "°C"
    return Row(
        refs=(f"Observation/{observation['id']}",),
        name=names[0] if names else "",
        names=names,
        time=parse_datetime(_time(observation)),
        value=value,
        text=told,
        unit=unit,
        comparator=bound,
        visit=stay.visit if stay else "",
        icu_stay_id=stay.icu if stay else "",
    )


_FAHRENHEIT = frozenset({"°f", "f", "[degf]", "degf", "deg f", "?f", "fahrenheit"})


def _value(observation: Resource) -> tuple[float | None, str, str, str]:
    """Number, words, unit, and whether the number is only a bound."""
    for name in ("valueQuantity.value", "valueInteger"):
        value = number_at(observation, name)
        if value is not None:
            unit = text_at(observation, "valueQuantity.unit", "valueQuantity.code")
            return value, "", unit, text_at(observation, "valueQuantity.comparator")
    said = text_at(observation, "valueString", "valueDateTime")
    return (
        None,
        said or next(iter(concept_names(observation.get("valueCodeableConcept"))), ""),
        "",
        "",
    )


def _time(observation: Resource) -> str:
    return text_at(
        observation, "effectiveDateTime", "effectivePeriod.start", "effectiveInstant", "issued"
    )


def _end(system: str) -> str:
    return system.rstrip("/").rsplit("/", 1)[-1]
