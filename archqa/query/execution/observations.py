"""Rows of results of any category: one for each Observation with a value, and for each component.

A reading that the record holds twice, as an Observation and as a component of a panel, is one row
with both as its resources.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import NamedTuple

from archqa.fhir import CodeCount, Resource
from archqa.fhir.store import LocalRecord
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.declared_rows import declared_facts
from archqa.query.execution.elements import (
    concept_code,
    concept_codings,
    concept_name,
    concept_names,
    number_at,
    objects_at,
    text_at,
    value_at,
)
from archqa.query.execution.named_rows import CodeTest, RowTest, Wanted, select_named
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.execution.statuses import range_text, result_flags, status_facts
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


_MAX_ROWS_AT_ONCE = 500
"""Of a patient with more results, those with some codes are read: 25 ms instead of 150 of 1,400."""

_CODE_ELEMENTS = frozenset({"code", "component.code"})


def results_of_kind(context: ExecutionContext, what: str, wanted: Wanted) -> list[Row]:
    """Rows of laboratory results or of vital signs, components included."""
    rows = [row for row in _rows_of_patient(context) if row.facts["kind"] == (what,)]
    return select_named(context, what, rows, wanted)


def observations(context: ExecutionContext, wanted: Wanted, scope: Scope) -> list[Row]:
    """Rows of results with one of the names. Of very many, only those are read."""
    if wanted.is_everything or reads_all(context):
        return select_named(context, "observation", _rows_of_patient(context), wanted)
    codes = [code for code in context.chart.codes("Observation") if code.element in _CODE_ELEMENTS]
    code_test = CodeTest(context, "observation", wanted, codes)
    limits = server_limits(context, "observation", scope)
    found = context.chart.observations(
        lambda code: code.element in _CODE_ELEMENTS and code_test(code),
        (),
        limits,
        parameter="combo-code",
    )
    return select_named(context, "observation", _rows_of(context, found), wanted, code_test)


def reads_all_locally(context: ExecutionContext) -> bool:
    """Whether all results of the patient are read, once, without asking a server."""
    return isinstance(context.chart.record, LocalRecord) and reads_all(context)


def reads_all(context: ExecutionContext) -> bool:
    """Whether all results of the patient are read, once, instead of those with some codes."""
    return context.chart.observation_count <= _MAX_ROWS_AT_ONCE or not isinstance(
        context.chart.record, LocalRecord
    )


def _rows_of_patient(context: ExecutionContext) -> list[Row]:
    """The rows of all results, read once."""
    key = f"rows of observation, {context.conventions.convert_to_celsius}"
    return context.chart.get_or_compute(
        key, lambda: _rows_of(context, context.chart.search("Observation"))
    )


def _rows_of(context: ExecutionContext, found: list[Resource]) -> list[Row]:
    rows = []
    for observation in found:
        components = objects_at(observation, "component")
        row = observation_row(context, observation)
        row.facts["kind"] = (observation_kind(observation),)
        if row.value is not None or row.text or not components:
            rows.append(row)
        for component in components:
            rows.append(_component_row(context, row, component))
    return _without_duplicates(rows)


def _component_row(context: ExecutionContext, panel: Row, component: Resource) -> Row:
    """A component as a row with the time, the visit and the status of its panel."""
    names = concept_names(component.get("code"))
    value = measured_value(context, component)
    facts = {**_shared_facts(panel), **result_facts(component), "panel": panel.names}
    if "data_absent" in facts:
        facts["status_detail"] = ("data-absent",)
    return replace(
        panel,
        name=next(iter(names), ""),
        names=names,
        codings=concept_codings(component.get("code")),
        value=value.number,
        text=value.text,
        unit=value.unit,
        comparator=value.comparator,
        facts=facts,
    )


def _shared_facts(panel: Row) -> dict[str, tuple[str, ...]]:
    return {name: panel.facts[name] for name in ("status", "kind") if name in panel.facts}


def _without_duplicates(rows: list[Row]) -> list[Row]:
    """The rows, of which those of one code, time and value are one with the resources of all."""
    unique: dict[object, Row] = {}
    for row in rows:
        key = _identity(row)
        known = unique.get(key)
        if known is None:
            unique[key] = row
        else:
            unique[key] = _merged(known, row)
    return list(unique.values())


def _identity(row: Row) -> object:
    """Equal for two rows that are one reading: only where the time of day is known."""
    codes = frozenset((coding.system, coding.code) for coding in row.codings if coding.code)
    has_value = row.value is not None or bool(row.text)
    if not codes or not has_value or not _has_time_of_day(row.time):
        return id(row)
    statuses = (row.facts.get("status"), row.comparator)
    return codes, row.time, row.value, row.unit, row.text, statuses


def _has_time_of_day(moment: datetime | None) -> bool:
    return moment is not None and moment.time() != time.min


def _merged(known: Row, row: Row) -> Row:
    """One reading: its own Observation first, then the panel; with the facts of both."""
    if "panel" in known.facts and "panel" not in row.facts:
        known, row = row, known
    refs = tuple(dict.fromkeys((*known.refs, *row.refs)))
    return replace(known, refs=refs, facts={**row.facts, **known.facts})


MICROBIOLOGY_KINDS = ("microbiology_test", "organism", "susceptibility")

Members = dict[str, list[Resource]]
"""By an Observation's id, the Observations that belong to it."""


class MicrobiologyTest(NamedTuple):
    """One test: its Observation, its row without facts, its specimen's names and its organisms."""

    row: Row
    specimen_names: tuple[str, ...]
    organisms: list[Resource]


def microbiology(context: ExecutionContext, what: str) -> list[Row]:
    """Rows of tests, of organisms or of susceptibilities."""
    return context.chart.get_or_compute(what, lambda: _microbiology_rows(context, what))


def _microbiology_rows(context: ExecutionContext, what: str) -> list[Row]:
    observations = context.chart.observations(_is_microbiology_code, (), {})
    tests = []
    for observation in observations:
        if observation_kind(observation) == "microbiology_test":
            tests.append(observation)
    context.chart.resolver.fetch(test.get("specimen") for test in tests)
    members = _members(observations)
    rows = []
    for observation in tests:
        test = _microbiology_test(context, observation, members)
        if what == "microbiology_test":
            rows.append(_test_row(test, members))
        elif what == "organism":
            rows += _organism_rows(context, test, members)
        else:
            rows += _susceptibility_rows(context, test, members)
    return rows


def _is_microbiology_code(code: CodeCount) -> bool:
    if code.element != "code":
        return False
    return any(code_matches_kind(code, kind) for kind in MICROBIOLOGY_KINDS)


def _members(observations: list[Resource]) -> Members:
    """The members of each Observation, linked from either end."""
    observation_by_id = {_id(observation): observation for observation in observations}
    members: dict[str, dict[str, Resource]] = defaultdict(dict)
    for observation in observations:
        observation_id = _id(observation)
        for reference in objects_at(observation, "hasMember"):
            member = observation_by_id.get(reference_id(reference))
            if member is not None:
                members[observation_id][_id(member)] = member
        for reference in objects_at(observation, "derivedFrom"):
            parent_id = reference_id(reference)
            members[parent_id][observation_id] = observation
    return {parent_id: list(by_id.values()) for parent_id, by_id in members.items()}


def _microbiology_test(
    context: ExecutionContext, observation: Resource, members: Members
) -> MicrobiologyTest:
    row = observation_row(context, observation)
    specimen = context.chart.resolver.specimen(observation) or {}
    if specimen:
        row = replace(row, context_refs=(f"Specimen/{specimen['id']}",))
    specimen_names = concept_names(specimen.get("type"))
    organisms = members.get(_id(observation), [])
    return MicrobiologyTest(row, specimen_names, organisms)


def _test_row(test: MicrobiologyTest, members: Members) -> Row:
    susceptibility_refs: list[str] = []
    for organism in test.organisms:
        susceptibility_refs += map(_ref, members.get(_id(organism), []))
    organism_refs = map(_ref, test.organisms)
    organism_names = dict.fromkeys(map(_name, test.organisms))
    facts = {
        "specimen": test.specimen_names,
        "organism": tuple(organism_names),
    }
    facts = {**test.row.facts, **facts, "flag": _test_flags(test)}
    refs = (*test.row.refs, *organism_refs, *susceptibility_refs)
    return replace(test.row, refs=refs, facts=facts)


def _test_flags(test: MicrobiologyTest) -> tuple[str, ...]:
    """What the test is; one in which an organism grew is positive."""
    flags = test.row.facts.get("flag", ())
    if test.organisms and "positive" not in flags:
        return (*flags, "positive")
    return flags


def _statuses(test_row: Row, row: Row) -> tuple[str, ...]:
    """The statuses of a finding and of its test: an error of either is one of both."""
    statuses = (*row.facts.get("status", ()), *test_row.facts.get("status", ()))
    return tuple(dict.fromkeys(statuses))


def _organism_rows(
    context: ExecutionContext, test: MicrobiologyTest, members: Members
) -> list[Row]:
    rows = []
    for organism in test.organisms:
        susceptibility_refs = map(_ref, members.get(_id(organism), []))
        refs = (_ref(organism), *test.row.refs, *susceptibility_refs)
        rows.append(_member_row(context, test, organism, organism, refs))
    return rows


def _susceptibility_rows(
    context: ExecutionContext, test: MicrobiologyTest, members: Members
) -> list[Row]:
    rows = []
    for organism in test.organisms:
        for susceptibility in members.get(_id(organism), []):
            refs = (_ref(susceptibility), *test.row.refs, _ref(organism))
            rows.append(_member_row(context, test, organism, susceptibility, refs))
    return rows


def _member_row(
    context: ExecutionContext,
    test: MicrobiologyTest,
    organism: Resource,
    member: Resource,
    refs: tuple[str, ...],
) -> Row:
    row = observation_row(context, member)
    code = concept_code(member.get("valueCodeableConcept"))
    results = dict.fromkeys(result for result in (code, row.text) if result)
    facts = {
        "specimen": test.specimen_names,
        "organism": (_name(organism),),
        "result": tuple(results),
    }
    facts = {**row.facts, **facts, "status": _statuses(test.row, row)}
    return replace(
        row,
        refs=refs,
        context_refs=test.row.context_refs,
        time=test.row.time,
        hospital_visit_id=test.row.hospital_visit_id,
        icu_stay_id=test.row.icu_stay_id,
        facts=facts,
    )


def _id(observation: Resource) -> str:
    return str(observation["id"])


def _name(observation: Resource) -> str:
    return concept_name(observation.get("code"))


def _ref(observation: Resource) -> str:
    return f"Observation/{observation['id']}"
