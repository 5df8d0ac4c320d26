"""Rows of Observations: results of any category, and microbiology.

There is one row for each Observation with a value, and for each component. A reading that the
record holds twice, as an Observation and as a component of a panel, is one row with both as its
resources.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import time, timedelta

from archqa.core.recorded_numbers import recorded_text
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
    quantity_text,
    target_of,
    text_at,
    time_at,
    value_at,
)
from archqa.query.execution.named_rows import (
    EVERYTHING,
    CodeTest,
    RowTest,
    Wanted,
    select_named,
)
from archqa.query.execution.rows import Coding, Facts, Row
from archqa.query.execution.statuses import reference_range, result_flags, status_facts
from archqa.query.kinds import OBSERVATION
from archqa.query.values import RANGE, Value, read_pressure, read_text, usual_comparator
from archqa.terminology.codes import measurements_coded
from archqa.terminology.concepts import concept_text, measurement_kind
from archqa.terminology.cues import cue_pattern, names_by_code
from archqa.terminology.labels import specimens_named
from archqa.terminology.words import word_list

_KIND_OF_CATEGORY = {"laboratory": "lab", "vital-signs": "vital"}
UNCLASSIFIED = "unclassified"
"""The kind of results without a known category and of no known measurement."""

_LABORATORY_NAME = re.compile(r"\[[^\]]+\] in ")
"""What long names of LOINC for laboratory tests have: `[Mass/volume] in Serum`."""

_DATE_MARGIN = timedelta(days=2)
"""A server may read a bare date in any time zone."""

_FAHRENHEIT = frozenset({"°f", "f", "[degf]", "degf", "deg f", "?f", "fahrenheit"})
_FLAGGING = frozenset({"interpretation", "referenceRange", "dataAbsentReason"})
"""Elements of a result that hold more than its number."""

_MAX_ROWS_AT_ONCE = 500
"""Of a patient with more results, those with some codes are read: 25 ms instead of 150 of 1,400."""

_CODE_ELEMENTS = frozenset({"code", "component.code"})

_MICROBIOLOGY_KINDS = ("microbiology_test", "organism", "susceptibility")

Members = dict[str, list[Resource]]
"""By the reference of an Observation, the Observations that belong to it."""


_SYSTOLIC = Coding("http://loinc.org", "8480-6", "Systolic blood pressure")
_DIASTOLIC = Coding("http://loinc.org", "8462-4", "Diastolic blood pressure")
_NAMES_PRESSURE = re.compile(r"\b(?:blood pressure|bp)\b", re.IGNORECASE)
_ON_SPECIMEN = re.compile(
    r"specimen|sample|hemoly|haemoly|clot|appearance|quality", re.I
)
"""Names of results about the specimen: "hemolyzed" is a value there, no failure."""


def measurements(
    context: ExecutionContext, what: str, wanted: Wanted, scope: Scope
) -> list[Row]:
    """Rows of one kind with one of the names. The server may omit rows outside of the scope."""
    # A server that finds exact names need not list its codes.
    by_exact_name = context.conventions.name_matching == "equal" and not wanted.concepts
    code_test = None
    if not by_exact_name:
        codes = context.chart.codes("Observation")
        codes_of_kind = [code for code in codes if _code_matches_kind(code, what)]
        code_test = CodeTest(context, what, wanted, codes_of_kind)
    by_name = RowTest(context, what, wanted, ())

    def code_matches(code: CodeCount) -> bool:
        if code.element != "code" or not _code_matches_kind(code, what):
            return False
        if code_test is not None:
            return code_test(code)
        return by_name.matches((), (code.display or code.code,))

    names_to_search = wanted.names if by_exact_name else ()
    limits = _server_limits(context, what, scope)
    rows = []
    for observation in context.chart.observations(
        code_matches, names_to_search, limits
    ):
        if _observation_kind(observation) in _accepted_kinds(what, wanted):
            rows.append(_observation_row(context, observation))
    return select_named(context, what, rows, wanted, code_test)


def count_measurements(context: ExecutionContext, what: str) -> int:
    """The number of Observations of a kind by the counts of their codes and categories."""
    by_system = by_category = 0
    for code in context.chart.codes("Observation"):
        if code.element == "code" and _kind_of_system(code.system) == what:
            by_system += code.count
        elif code.element == "category" and _KIND_OF_CATEGORY.get(code.code) == what:
            by_category += code.count
    return by_system or by_category


def _code_matches_kind(code: CodeCount, what: str) -> bool:
    """Whether a code can be of that kind: by its system, or because its system is unknown."""
    kind = _kind_of_system(code.system)
    if kind is None:
        return what in _KIND_OF_CATEGORY.values()
    return kind == what


def _accepted_kinds(what: str, wanted: Wanted) -> frozenset[str]:
    """What results of a kind may be; nobody knows whether the unclassified ones are of it."""
    if what == "vital" and wanted == EVERYTHING:
        return frozenset({what})
    return frozenset(
        {what, UNCLASSIFIED} if what in _KIND_OF_CATEGORY.values() else {what}
    )


def _observation_kind(observation: Resource) -> str:
    """The kind of row of an Observation, by code system, category and concept; empty if it is none."""
    for coding in objects_at(observation, "code.coding"):
        kind = _kind_of_system(text_at(coding, "system"))
        if kind == "output" and "valueQuantity" not in observation:
            return ""  # Dates of lines and dressings share the system of outputs.
        if kind:
            return kind
    categories = _categories(observation)
    for category in categories:
        if category in _KIND_OF_CATEGORY:
            return _KIND_OF_CATEGORY[category]
    if not word_list("other category").isdisjoint(categories):
        return ""
    for category in categories:
        if "lab" in category or category in word_list("laboratory section"):
            return "lab"
        if "vital" in category:
            return "vital"
    parts = [observation, *objects_at(observation, "component")]
    return next(filter(None, map(_kind_by_code, parts)), UNCLASSIFIED)


def _categories(observation: Resource) -> list[str]:
    """The codes, displays and texts of the categories in lower case, codes of FHIR among them."""
    texts: list[str] = []
    for category in objects_at(observation, "category"):
        for coding in concept_codings(category):
            texts += filter(None, (coding.code.lower(), coding.display.lower()))
    return texts


def _kind_by_code(result: Resource) -> str:
    """The kind of a result or a component by what it measures; empty if that is not known."""
    codings = concept_codings(result.get("code"))
    for concept in measurements_coded(codings):
        return measurement_kind(concept)
    if any(_LABORATORY_NAME.search(coding.display) for coding in codings):
        return "lab"
    return ""


def _server_limits(
    context: ExecutionContext, what: str, scope: Scope
) -> dict[str, str | list[str]]:
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
        limits["encounter"] = ",".join(scope.visit_ids)
    return limits


def _observation_row(context: ExecutionContext, observation: Resource) -> Row:
    """An Observation as a row."""
    stay = context.chart.find_stay(observation.get("encounter"))
    names = _result_names(observation)
    recorded = _read_value(context, observation)
    value = _comparable(context, recorded)
    if "bodySite" in observation:
        facts = declared_facts(context.chart, OBSERVATION, observation)
    else:  # Results are many: most have nothing declared but a status.
        facts = status_facts(OBSERVATION.statuses, observation)
    facts.update(_result_facts(observation, recorded, names))
    # The values of a panel are those of its parts.
    is_panel = "component" in observation or "hasMember" in observation
    if "data_absent" in facts and not is_panel:
        facts["status_detail"] = ("data-absent",)
    return Row(
        refs=(f"Observation/{observation['id']}",),
        name=next(iter(names), ""),
        names=names,
        codings=concept_codings(observation.get("code")),
        time=time_at(observation, *OBSERVATION.times),
        value=value.number,
        text=value.text,
        unit=value.unit,
        comparator=value.comparator,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        facts=facts,
    )


def _with_specimen(context: ExecutionContext, row: Row, observation: Resource) -> Row:
    """The row with what was tested; a label that leaves it open is qualified by it.

    `Glucose` of a Specimen of urine is `Glucose, Urine`: no glucose of the blood.
    """
    specimen = target_of(context.chart, observation.get("specimen"), observation) or {
        "type": {"text": text_at(observation, "specimen.display")}
    }
    kinds = concept_names(specimen.get("type"))
    is_other = any(map(specimens_named, kinds))
    if not is_other or any(map(specimens_named, row.names)):
        return row
    codings = []
    for coding in row.codings:
        display = f"{coding.display}, {kinds[0]}" if coding.display else ""
        codings.append(coding._replace(display=display))
    qualified = f"{row.name}, {kinds[0]}"
    row.facts["specimen"] = kinds
    return replace(
        row,
        name=qualified,
        names=(qualified, *row.names),
        codings=tuple(codings),
        context_refs=(f"Specimen/{specimen['id']}",) if "id" in specimen else (),
    )


def _result_names(result: Resource) -> tuple[str, ...]:
    """The names of a result or of a component; before a code without display, what it measures."""
    names = concept_names(result.get("code"))
    codings = concept_codings(result.get("code"))
    if not any(coding.display for coding in codings):
        for concept in measurements_coded(codings):
            name = concept_text(concept.name)
            return (name[:1].upper() + name[1:], *names)
    return names


def _result_facts(result: Resource, value: Value, names: tuple[str, ...]) -> Facts:
    """Flags, reference range and reason of a missing value, of a result or of a component."""
    if "valueQuantity" in result and not _FLAGGING & result.keys():
        return {}  # Most results are a number without more, and there are many.
    facts = {}
    flags = result_flags(result, value)
    if flags:
        facts["flag"] = flags
    reference = reference_range(result)
    if reference is not None:
        facts["reference_range"] = (reference.text,)
    if value.number is not None:
        return facts
    absence = value.text
    if not value.text:
        absence = concept_name(value_at(result, "dataAbsentReason"))
    elif not _reports_failure(value.text) or any(map(_ON_SPECIMEN.search, names)):
        absence = ""
    if absence:
        facts["data_absent"] = (absence,)
    return facts


def _reports_failure(text: str) -> bool:
    """Whether a text says why there is no result: specimen clotted, test not performed."""
    return cue_pattern("failed", "result").search(text) is not None


def _comparable(context: ExecutionContext, value: Value) -> Value:
    """The value of an Observation or of a component, by the conventions in degrees Celsius."""
    if not context.conventions.convert_to_celsius or value.number is None:
        return value
    if value.unit.strip().lower() not in _FAHRENHEIT:
        return value
    celsius = (value.number - 32) * 5 / 9
    return value._replace(number=round(celsius, 2), unit="°C", text="")


def _read_value(context: ExecutionContext, result: Resource) -> Value:
    return read_value(result, reads_texts=context.conventions.include_text_values)


def read_value(result: Resource, *, reads_texts: bool = True) -> Value:
    """The value of an Observation or of a component; `reads_texts`: numbers in texts count too."""
    for path in ("valueQuantity.value", "valueInteger"):
        number = number_at(result, path)
        if number is not None:
            unit = text_at(result, "valueQuantity.unit", "valueQuantity.code")
            comparator = text_at(result, "valueQuantity.comparator")
            return Value(number, "", unit, usual_comparator(comparator))
    written = text_at(result, "valueString")
    concept = result.get("valueCodeableConcept")
    if not written and not value_at(concept, "coding"):
        written = concept_name(concept)
    if written and reads_texts:
        return read_text(written)
    text = written or text_at(result, "valueDateTime") or concept_name(concept)
    return Value(text=text) if text else _other_value(result)


def _other_value(result: Resource) -> Value:
    """A boolean as yes or no, a range or a ratio as text, a period by its start.

    Of a range with one open end, the other is a bound.
    """
    boolean = result.get("valueBoolean")
    if isinstance(boolean, bool):
        return Value(text="yes" if boolean else "no")
    low = number_at(result, "valueRange.low.value")
    high = number_at(result, "valueRange.high.value")
    unit = text_at(result, "valueRange.high.unit", "valueRange.low.unit")
    if low is not None and high is not None:
        text = f"{recorded_text(low)} to {recorded_text(high)} {unit}"
        return Value(text=text.strip(), comparator=RANGE)
    if low is not None:
        return Value(low, "", unit, ">=")
    if high is not None:
        return Value(high, "", unit, "<=")
    numerator = quantity_text(value_at(result, "valueRatio.numerator"))
    denominator = quantity_text(value_at(result, "valueRatio.denominator"))
    if numerator and denominator:
        # A titer of more than 1:320 is >1:320, not 1:>320.
        plain = denominator.lstrip("<>=")
        sign = denominator.removesuffix(plain)
        return Value(text=f"{sign}{numerator}:{plain}")
    text = text_at(result, "valueTime", "valuePeriod.start")
    types = [name.removeprefix("value") for name in result if name.startswith("value")]
    if not text and types:
        text = f"recorded as {types[0]}, which archqa does not read"
    return Value(text=text)


def _kind_of_system(system: str) -> str | None:
    """The kind of rows that the codes of a system name; None of a system with several or none."""
    return names_by_code("kind of code system").get(
        system.rstrip("/").rsplit("/", 1)[-1]
    )


def results_of_kind(context: ExecutionContext, what: str, wanted: Wanted) -> list[Row]:
    """Rows of laboratory results or of vital signs, components included."""
    accepted = _accepted_kinds(what, wanted)
    rows = []
    for row in _rows_of_patient(context):
        if not accepted.isdisjoint(row.facts["kind"]):
            rows.append(row)
    if wanted == EVERYTHING:
        _note_unclassified(context, rows)
    return select_named(context, what, rows, wanted)


def _note_unclassified(context: ExecutionContext, rows: Sequence[Row]) -> None:
    unclassified = sum(row.facts["kind"] == (UNCLASSIFIED,) for row in rows)
    if unclassified:
        results = "result has" if unclassified == 1 else "results have"
        context.warn(
            f"{unclassified} {results} neither a category nor a known name, and may be of another kind."
        )


def observations(context: ExecutionContext, wanted: Wanted, scope: Scope) -> list[Row]:
    """Rows of results with one of the names. Of very many, only those are read."""
    if wanted == EVERYTHING or reads_all(context):
        return select_named(context, "observation", _rows_of_patient(context), wanted)
    codes = [
        code
        for code in context.chart.codes("Observation")
        if code.element in _CODE_ELEMENTS
    ]
    code_test = CodeTest(context, "observation", wanted, codes)
    limits = _server_limits(context, "observation", scope)
    resources = context.chart.observations(
        lambda code: code.element in _CODE_ELEMENTS and code_test(code),
        (),
        limits,
        parameter="combo-code",
    )
    return select_named(
        context, "observation", _rows_of(context, resources), wanted, code_test
    )


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
    conventions = context.conventions
    key = (
        f"rows of observation, {conventions.convert_to_celsius}, "
        f"{conventions.include_text_values}"
    )
    return context.chart.get_or_compute(
        key, lambda: _rows_of(context, context.chart.search("Observation"))
    )


def _rows_of(context: ExecutionContext, found: list[Resource]) -> list[Row]:
    rows = []
    context.chart.resolver.fetch(each.get("specimen") for each in found)
    for observation in found:
        components = objects_at(observation, "component")
        row = _observation_row(context, observation)
        row.facts["kind"] = (_observation_kind(observation),)
        if "specimen" in observation and context.conventions.name_matching == "words":
            row = _with_specimen(context, row, observation)
        pressures = _pressures_in_text(context, row)
        if pressures:
            rows += pressures
        elif row.value is not None or row.text or not components:
            rows.append(row)
        for component in components:
            rows.append(_component_row(context, row, component))
    return _without_duplicates(rows)


def _component_row(context: ExecutionContext, panel: Row, component: Resource) -> Row:
    """A component as a row with the time, the visit and the status of its panel."""
    names = _result_names(component)
    recorded = _read_value(context, component)
    value = _comparable(context, recorded)
    facts = {}
    if "status" in panel.facts:
        facts["status"] = panel.facts["status"]
    facts["kind"] = panel.facts["kind"]
    facts.update(_result_facts(component, recorded, names))
    facts["panel"] = panel.names
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


def _pressures_in_text(context: ExecutionContext, row: Row) -> list[Row]:
    """Systolic and diastolic pressure of a row whose text has both: 146/92."""
    if not row.text or not context.conventions.include_text_values:
        return []
    pressures = read_pressure(row.text)
    if pressures is None or not any(map(_NAMES_PRESSURE.search, row.names)):
        return []
    rows = []
    for coding, value in zip((_SYSTOLIC, _DIASTOLIC), pressures, strict=True):
        rows.append(
            replace(
                row,
                name=coding.display,
                names=(coding.display, *row.names),
                codings=(coding,),
                value=value.number,
                text="",
                unit=value.unit,
                facts={**row.facts, "panel": row.names},
            )
        )
    return rows


def _without_duplicates(rows: list[Row]) -> list[Row]:
    """The rows, of which those of one code, time and value are one with the resources of all.

    They are one reading only where the time of day is known. Of one reading, its own Observation
    comes first, then the panel; it has the facts of both.
    """
    unique: dict[object, Row] = {}
    for row in rows:
        codes = frozenset(
            (coding.system, coding.code) for coding in row.codings if coding.code
        )
        has_value = row.value is not None or bool(row.text)
        has_time_of_day = row.time is not None and row.time.time() != time.min
        key: object = id(row)
        if codes and has_value and has_time_of_day:
            status = row.facts.get("status")
            key = (
                codes,
                row.time,
                row.value,
                row.comparator,
                row.unit,
                row.text,
                status,
            )
        first, second = unique.get(key), row
        if first is None:
            unique[key] = row
            continue
        if "panel" in first.facts and "panel" not in second.facts:
            first, second = second, first
        refs = dict.fromkeys((*first.refs, *second.refs))
        unique[key] = replace(
            first, refs=tuple(refs), facts={**second.facts, **first.facts}
        )
    return list(unique.values())


def microbiology(context: ExecutionContext, what: str) -> list[Row]:
    """Rows of tests of specimens, of the organisms that grew, or of their susceptibilities.

    A test refers to its organisms, an organism to its susceptibilities (`hasMember`; the reverse is
    `derivedFrom`). All rows have the time and the visit of the test: organisms and susceptibilities
    have no encounter, and their time is that of storing.
    """
    return context.chart.get_or_compute(what, lambda: _microbiology_rows(context, what))


def _microbiology_rows(context: ExecutionContext, what: str) -> list[Row]:
    resolver = context.chart.resolver
    observations = context.chart.observations(_is_microbiology_code, (), {})
    members = _members(observations)
    tests = []
    for observation in observations:
        if _observation_kind(observation) == "microbiology_test":
            tests.append(observation)
    resolver.fetch(test.get("specimen") for test in tests)
    rows = []
    for test in tests:
        test_row = _observation_row(context, test)
        specimen = resolver.specimen(test) or {}
        if specimen:
            test_row = replace(test_row, context_refs=(f"Specimen/{specimen['id']}",))
        test_row.facts["specimen"] = concept_names(specimen.get("type"))
        organisms = members.get(_ref(test), [])
        if what == "microbiology_test":
            rows.append(_test_row(test_row, organisms, members))
            continue
        for organism in organisms:
            susceptibilities = members.get(_ref(organism), [])
            if what == "organism":
                refs = (_ref(organism), *test_row.refs, *map(_ref, susceptibilities))
                rows.append(_member_row(context, test_row, organism, organism, refs))
                continue
            for susceptibility in susceptibilities:
                refs = (_ref(susceptibility), *test_row.refs, _ref(organism))
                rows.append(
                    _member_row(context, test_row, organism, susceptibility, refs)
                )
    return rows


def _is_microbiology_code(code: CodeCount) -> bool:
    if code.element != "code":
        return False
    return any(_code_matches_kind(code, kind) for kind in _MICROBIOLOGY_KINDS)


def _members(observations: list[Resource]) -> Members:
    """The members of each Observation, linked from either end."""
    observation_by_ref = {
        _ref(observation): observation for observation in observations
    }
    members: dict[str, dict[str, Resource]] = defaultdict(dict)
    for observation in observations:
        own_ref = _ref(observation)
        for reference in objects_at(observation, "hasMember"):
            member_ref = f"Observation/{reference_id(reference)}"
            if member_ref in observation_by_ref:
                members[own_ref][member_ref] = observation_by_ref[member_ref]
        for reference in objects_at(observation, "derivedFrom"):
            members[f"Observation/{reference_id(reference)}"][own_ref] = observation
    return {parent_ref: list(by_ref.values()) for parent_ref, by_ref in members.items()}


def _test_row(test_row: Row, organisms: list[Resource], members: Members) -> Row:
    """A test with its organisms and their susceptibilities; one in which one grew is positive."""
    refs = [*test_row.refs, *map(_ref, organisms)]
    for organism in organisms:
        refs += map(_ref, members.get(_ref(organism), []))
    names = dict.fromkeys(concept_name(organism.get("code")) for organism in organisms)
    flags = test_row.fact("flag")
    if organisms and "positive" not in flags:
        flags = (*flags, "positive")
    facts = {**test_row.facts, "organism": tuple(names), "flag": flags}
    return replace(test_row, refs=tuple(refs), facts=facts)


def _member_row(
    context: ExecutionContext,
    test_row: Row,
    organism: Resource,
    member: Resource,
    refs: tuple[str, ...],
) -> Row:
    """An organism or a susceptibility; an error of either it or its test is one of both."""
    row = _observation_row(context, member)
    code = concept_code(member.get("valueCodeableConcept"))
    statuses = (*row.fact("status"), *test_row.fact("status"))
    facts = {
        **row.facts,
        "specimen": test_row.facts["specimen"],
        "organism": (concept_name(organism.get("code")),),
        "result": tuple(dict.fromkeys(filter(None, (code, row.text)))),
        "status": tuple(dict.fromkeys(statuses)),
    }
    return replace(
        row,
        refs=refs,
        context_refs=test_row.context_refs,
        time=test_row.time,
        hospital_visit_id=test_row.hospital_visit_id,
        icu_stay_id=test_row.icu_stay_id,
        facts=facts,
    )


def _ref(observation: Resource) -> str:
    return f"Observation/{observation['id']}"
