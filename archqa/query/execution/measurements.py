"""Rows of measurements: lab results, charted values and outputs.

MIMIC-IV on FHIR distinguishes them only by the system of the code (labs and all microbiology share
a category); in other records the category does.
"""

from datetime import timedelta
from typing import NamedTuple

from archqa.fhir import CodeCount, Resource
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.elements import number_at, objects_at, text_at
from archqa.query.execution.names import NameMatcher, concept_name, concept_names
from archqa.query.execution.rows import Row, parse_datetime

_KIND_OF_SYSTEM = {
    "mimic-d-labitems": "lab",
    "mimic-chartevents-d-items": "vital",
    "mimic-d-items": "output",
    "mimic-microbiology-test": "microbiology_test",
    "mimic-microbiology-organism": "organism",
    "mimic-microbiology-antibiotic": "susceptibility",
}
_KIND_OF_CATEGORY = {"laboratory": "lab", "vital-signs": "vital"}
_DATE_MARGIN = timedelta(days=2)
"""A server may read a bare date in any time zone."""

_FAHRENHEIT = frozenset({"°f", "f", "[degf]", "degf", "deg f", "?f", "fahrenheit"})


class MeasuredValue(NamedTuple):
    """The value of an Observation: a number with its unit and comparator, or a text."""

    number: float | None = None
    text: str = ""
    unit: str = ""
    comparator: str = ""


def measurements(
    context: ExecutionContext, what: str, names: tuple[str, ...], scope: Scope
) -> list[Row]:
    """Rows of one kind with one of the names. The server may omit rows outside of the scope."""
    matches_name = _name_matcher(context, what, names)

    def code_matches(code: CodeCount) -> bool:
        if code.element != "code" or not code_matches_kind(code, what):
            return False
        return matches_name(code.display or code.code)

    names_to_search: tuple[str, ...] = ()
    if context.conventions.name_matching == "equal":
        names_to_search = names
    limits = server_limits(context, what, scope)
    rows = []
    for observation in context.chart.observations(code_matches, names_to_search, limits):
        if observation_kind(observation) != what:
            continue
        if matches_name(*concept_names(observation.get("code"))):
            rows.append(observation_row(context, observation))
    return rows


def _name_matcher(context: ExecutionContext, what: str, names: tuple[str, ...]) -> NameMatcher:
    record_names: list[str] = []
    if context.conventions.name_matching == "words":
        codes = context.chart.codes("Observation")
        record_names = [code.display for code in codes if code_matches_kind(code, what)]
    return NameMatcher(names, record_names, context.conventions, what)


def code_matches_kind(code: CodeCount, what: str) -> bool:
    """Whether a code can stand for that kind: by its system, or because its system does not tell."""
    kind = _KIND_OF_SYSTEM.get(_system_name(code.system))
    if kind is None:
        return what in _KIND_OF_CATEGORY.values()
    return kind == what


def observation_kind(observation: Resource) -> str:
    """The kind of row of an Observation; empty if it is none."""
    for coding in objects_at(observation, "code.coding"):
        kind = _KIND_OF_SYSTEM.get(_system_name(text_at(coding, "system")))
        if kind == "output" and "valueQuantity" not in observation:
            return ""  # Dates of lines and dressings share the system of outputs.
        if kind:
            return kind
    for coding in objects_at(observation, "category.coding"):
        code = text_at(coding, "code")
        if code in _KIND_OF_CATEGORY:
            return _KIND_OF_CATEGORY[code]
    return ""


def server_limits(context: ExecutionContext, what: str, scope: Scope) -> dict[str, str | list[str]]:
    """Search parameters that let the server omit other visits, and days far from the window."""
    limits: dict[str, str | list[str]] = {}
    dates = []
    if scope.window.low.year > 1:
        earliest = scope.window.low - _DATE_MARGIN
        dates.append(f"ge{earliest:%Y-%m-%d}")
    if scope.window.high.year < 9999:
        latest = scope.window.high + _DATE_MARGIN
        dates.append(f"le{latest:%Y-%m-%d}")
    if dates:
        limits["date"] = dates
    if scope.requested_visit is None or not context.conventions.requires_encounter:
        return limits
    if what in {"vital", "output"}:
        limits["encounter"] = ",".join(scope.icu_stay_ids or ["none"])
    elif scope.requested_visit.kind == "hospital":
        limits["encounter"] = scope.visit_id
    return limits


def observation_row(context: ExecutionContext, observation: Resource) -> Row:
    """An Observation as a row."""
    stay = context.chart.find_stay(observation.get("encounter"))
    names = concept_names(observation.get("code"))
    value = _measured_value(observation)
    if context.conventions.convert_to_celsius:
        value = _in_celsius(value)
    return Row(
        refs=(f"Observation/{observation['id']}",),
        name=next(iter(names), ""),
        names=names,
        time=parse_datetime(_effective_time(observation)),
        value=value.number,
        text=value.text,
        unit=value.unit,
        comparator=value.comparator,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
    )


def _measured_value(observation: Resource) -> MeasuredValue:
    for path in ("valueQuantity.value", "valueInteger"):
        number = number_at(observation, path)
        if number is not None:
            unit = text_at(observation, "valueQuantity.unit", "valueQuantity.code")
            comparator = text_at(observation, "valueQuantity.comparator")
            return MeasuredValue(number, "", unit, comparator)
    text = text_at(observation, "valueString", "valueDateTime")
    if not text:
        text = concept_name(observation.get("valueCodeableConcept"))
    return MeasuredValue(text=text)


def _in_celsius(value: MeasuredValue) -> MeasuredValue:
    if value.number is None or value.unit.strip().lower() not in _FAHRENHEIT:
        return value
    celsius = (value.number - 32) * 5 / 9
    return value._replace(number=round(celsius, 2), unit="°C")


def _effective_time(observation: Resource) -> str:
    return text_at(
        observation,
        "effectiveDateTime",
        "effectivePeriod.start",
        "effectiveInstant",
        "issued",
    )


def _system_name(system: str) -> str:
    return system.rstrip("/").rsplit("/", 1)[-1]
