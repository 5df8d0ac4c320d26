"""Rows of measurements: lab results, charted values and outputs.

MIMIC-IV on FHIR distinguishes them only by the system of the code (labs and all microbiology share
a category); in other records the category does.
"""

from datetime import timedelta
from typing import NamedTuple

from archqa.fhir import CodeCount, Resource
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.declared_rows import declared_facts
from archqa.query.execution.elements import number_at, objects_at, text_at, value_at
from archqa.query.execution.flags import range_text, result_flags
from archqa.query.execution.named_rows import CodeTest, RowTest, Wanted, select_named
from archqa.query.execution.names import (
    concept_codings,
    concept_name,
    concept_names,
)
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.execution.statuses import status_facts
from archqa.query.kinds import OBSERVATION

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


def measurements(context: ExecutionContext, what: str, wanted: Wanted, scope: Scope) -> list[Row]:
    """Rows of one kind with one of the names. The server may omit rows outside of the scope."""
    codes_test = _codes_test(context, what, wanted)
    by_name = RowTest(context, what, wanted, ())

    def code_matches(code: CodeCount) -> bool:
        if code.element != "code" or not code_matches_kind(code, what):
            return False
        if codes_test is not None:
            return codes_test(code)
        return by_name.matches((), (code.display or code.code,))

    names_to_search: tuple[str, ...] = ()
    if context.conventions.name_matching == "equal" and not wanted.concepts:
        names_to_search = wanted.names
    limits = server_limits(context, what, scope)
    rows = []
    for observation in context.chart.observations(code_matches, names_to_search, limits):
        if observation_kind(observation) == what:
            rows.append(observation_row(context, observation))
    return select_named(context, what, rows, wanted, codes_test)


def _codes_test(context: ExecutionContext, what: str, wanted: Wanted) -> CodeTest | None:
    """A test of the codes of the kind; None where a server need not list them."""
    if context.conventions.name_matching == "equal" and not wanted.concepts:
        return None
    codes = [code for code in context.chart.codes("Observation") if code_matches_kind(code, what)]
    return CodeTest(context, what, wanted, codes)


def count_measurements(context: ExecutionContext, what: str) -> int:
    """The number of Observations of a kind by the counts of their codes and categories."""
    codes = context.chart.codes("Observation")
    by_system = [
        code.count
        for code in codes
        if code.element == "code" and _KIND_OF_SYSTEM.get(_system_name(code.system)) == what
    ]
    if by_system:
        return sum(by_system)
    return sum(
        code.count
        for code in codes
        if code.element == "category" and _KIND_OF_CATEGORY.get(code.code) == what
    )


def code_matches_kind(code: CodeCount, what: str) -> bool:
    """Whether a code can be of that kind: by its system, or because its system is unknown."""
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
    value = measured_value(context, observation)
    return Row(
        refs=(f"Observation/{observation['id']}",),
        name=next(iter(names), ""),
        names=names,
        codings=concept_codings(observation.get("code")),
        time=parse_datetime(text_at(observation, *OBSERVATION.times)),
        value=value.number,
        text=value.text,
        unit=value.unit,
        comparator=value.comparator,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        facts=_observation_facts(context, observation),
    )


def _observation_facts(
    context: ExecutionContext, observation: Resource
) -> dict[str, tuple[str, ...]]:
    if "bodySite" in observation:
        facts = declared_facts(context.chart, OBSERVATION, observation)
    else:  # Results are many: most have nothing declared but a status.
        facts = status_facts(OBSERVATION.statuses, observation)
    facts.update(result_facts(observation))
    if "data_absent" in facts and not _has_parts(observation):
        facts["status_detail"] = ("data-absent",)
    return facts


def _has_parts(observation: Resource) -> bool:
    """Whether it is a panel, whose values are those of its parts."""
    return "component" in observation or "hasMember" in observation


_FLAGGING = frozenset({"interpretation", "referenceRange", "dataAbsentReason"})


def result_facts(result: Resource) -> dict[str, tuple[str, ...]]:
    """Flags, reference range and reason of a missing value, of a result or of a component."""
    if "valueQuantity" in result and not _FLAGGING & result.keys():
        return {}  # Most results are a number without more, and there are many.
    value = _measured_value(result)
    facts = {}
    flags = result_flags(result, value.number, value.text)
    if flags:
        facts["flag"] = flags
    bounds = range_text(result)
    if bounds:
        facts["reference_range"] = (bounds,)
    if value.number is None and not value.text:
        absence = concept_name(value_at(result, "dataAbsentReason"))
        if absence:
            facts["data_absent"] = (absence,)
    return facts


def measured_value(context: ExecutionContext, result: Resource) -> MeasuredValue:
    """The value of an Observation or of a component, by the conventions in degrees Celsius."""
    value = _measured_value(result)
    if context.conventions.convert_to_celsius:
        return _in_celsius(value)
    return value


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
    return MeasuredValue(text=text or _other_text(observation))


def _other_text(observation: Resource) -> str:
    """A boolean as yes or no, a range or a ratio as text, a period by its start."""
    boolean = observation.get("valueBoolean")
    if isinstance(boolean, bool):
        return "yes" if boolean else "no"
    low = number_at(observation, "valueRange.low.value")
    high = number_at(observation, "valueRange.high.value")
    if low is not None and high is not None:
        unit = text_at(observation, "valueRange.high.unit", "valueRange.low.unit")
        return f"{low:g} to {high:g} {unit}".strip()
    numerator = number_at(observation, "valueRatio.numerator.value")
    denominator = number_at(observation, "valueRatio.denominator.value")
    if numerator is not None and denominator is not None:
        return f"{numerator:g}:{denominator:g}"
    return text_at(observation, "valueTime", "valuePeriod.start")


def _in_celsius(value: MeasuredValue) -> MeasuredValue:
    if value.number is None or value.unit.strip().lower() not in _FAHRENHEIT:
        return value
    celsius = (value.number - 32) * 5 / 9
    return value._replace(number=round(celsius, 2), unit="°C")


def _system_name(system: str) -> str:
    return system.rstrip("/").rsplit("/", 1)[-1]
