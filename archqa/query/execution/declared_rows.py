"""Rows of a kind as its declaration says: names, times, values and facts at declared paths."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archqa.fhir import Resource
from archqa.fhir.values.references import parse_reference
from archqa.query.execution.chart import Chart, reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import (
    codings_of,
    element_names,
    elements_at,
    names_at,
    names_of,
    number_at,
    objects_at,
    reference_names,
    text_at,
    time_at,
    value_at,
)
from archqa.query.execution.rows import Coding, Facts, Row
from archqa.query.execution.statuses import is_fact, status_facts
from archqa.query.kinds import CONDITION, ENCOUNTER, KINDS, PROCEDURE, Source

_PEOPLE = frozenset({"Practitioner", "RelatedPerson"})
_PLACES = frozenset({"Organization", "Location", "HealthcareService"})
_PATHS_IN_ROLES = {
    ("PractitionerRole", "practitioner"): ("practitioner",),
    ("PractitionerRole", "place"): ("organization", "location"),
    ("CareTeam", "practitioner"): ("participant.member",),
    ("CareTeam", "place"): ("managingOrganization",),
}
_MAX_REASONS_OF_VISIT = 3
"""With more reasons than these, a visit does not tell for which of them something was given."""


class Detail(NamedTuple):
    """Names and codes of what a row refers to, and the resources (`Type/id`) that state them."""

    names: tuple[str, ...] = ()
    codings: tuple[Coding, ...] = ()
    refs: tuple[str, ...] = ()


def declared_rows(context: ExecutionContext, what: str) -> list[Row]:
    """All rows of a kind, read once for each chart."""
    chart = context.chart
    return chart.get_or_compute(f"rows of {what}", lambda: _rows_of_kind(chart, what))


def _rows_of_kind(chart: Chart, what: str) -> list[Row]:
    rows = []
    for source in KINDS[what].sources:
        for resource in source_resources(chart, source):
            if not source.items:
                rows.append(declared_row(chart, source, resource))
                continue
            for item in objects_at(resource, source.items):
                rows.append(declared_row(chart, source, resource, item))
    return rows


def source_resources(chart: Chart, source: Source) -> list[Resource]:
    """The patient's resources of a declared type; none of an optional type that a server lacks."""
    params = dict(source.search)
    if source.patient != "patient":
        params[source.patient] = f"Patient/{chart.patient}"
    search = chart.search_if_known if source.optional else chart.search
    return search(source.type, params)


def declared_row(
    chart: Chart, source: Source, resource: Resource, item: Any = None
) -> Row:
    """One resource, or one item of it, as a row."""
    named = []
    for element in _rooted(resource, item, source.names):
        if not _is_ignored(source, element):
            named.append(element)
    names = names_of(chart, named)
    number, unit, text = _value(chart, _rooted(resource, item, source.values))
    stay = chart.find_stay(value_at(resource, source.encounter))
    return Row(
        refs=(f"{resource['resourceType']}/{resource['id']}",),
        name=next(iter(names), ""),
        names=names,
        codings=codings_of(chart, named),
        time=time_at(resource, *source.times, *source.recorded),
        end=time_at(resource, *source.ends),
        value=number,
        text=text,
        unit=unit,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        facts=declared_facts(chart, source, resource),
    )


def declared_facts(chart: Chart, source: Source, resource: Resource) -> Facts:
    """The statuses of a resource and the names at the paths of its further fields.

    `dated_by` is `recording` where the time of a row is when it was recorded, not when it was.
    """
    facts = status_facts(source.statuses, resource)
    has_time = bool(text_at(resource, *source.times))
    if not has_time and text_at(resource, *source.recorded):
        facts["dated_by"] = ("recording",)
    for fact, paths in source.facts:
        names = names_at(chart, resource, paths)
        if names:
            facts[fact] = names
    return facts


def _rooted(resource: Resource, item: Any, paths: tuple[str, ...]) -> list[Any]:
    """The elements at the paths, of which those with a leading dot start at the item."""
    elements = []
    for path in paths:
        root = item if path.startswith(".") else resource
        elements += elements_at(root, (path.lstrip("."),))
    return elements


def _is_ignored(source: Source, element: Any) -> bool:
    """Whether a concept only has codes that tell nothing of the row."""
    systems = [text_at(coding, "system") for coding in objects_at(element, "coding")]
    if not systems or not source.ignored_codes:
        return False
    return all(system.endswith(source.ignored_codes) for system in systems)


def _value(chart: Chart, elements: list[Any]) -> tuple[float | None, str, str]:
    """Number, unit and text of the first element that says anything."""
    for element in elements:
        number = number_at(element, "value")
        if number is not None:
            return number, text_at(element, "unit", "code"), f"{number:g}"
        names = element_names(chart, element)
        if names:
            return None, "", names[0]
    return None, "", ""


def diagnoses(context: ExecutionContext) -> list[Row]:
    """Rows of diagnoses. Those without a date have the start of their visit."""
    when = context.query.when
    depends_on_time = when.spans or when.position or context.query.returns == "time"
    rows = []
    for condition in context.chart.search("Condition"):
        row = declared_row(context.chart, CONDITION, condition)
        encounter_id = reference_id(condition.get("encounter"))
        if row.time is None and encounter_id:
            if depends_on_time:
                context.warn(
                    "Diagnoses have no date of their own here: the start of their visit stands in."
                )
            ref = f"Encounter/{encounter_id}"
            encounter = context.chart.resolver.resolve(ref)
            start = time_at(encounter, "period.start")
            facts = {**row.facts, "dated_by": ("visit",)}
            row = replace(row, time=start, context_refs=(ref,), facts=facts)
        rows.append(row)
    return rows


def procedures(context: ExecutionContext) -> list[Row]:
    """Rows of procedures; those done in the ICU only if the conventions include them."""
    resources = context.chart.search("Procedure")
    rows = []
    for procedure in resources:
        if context.conventions.include_icu_procedures or not _is_icu_procedure(
            procedure
        ):
            rows.append(declared_row(context.chart, PROCEDURE, procedure))
    omitted = len(resources) - len(rows)
    if omitted:
        context.warn(
            f"{omitted} of {len(resources)} procedures were done in the ICU and are left out."
        )
    return rows


def _is_icu_procedure(procedure: Resource) -> bool:
    for coding in objects_at(procedure, "code.coding"):
        if text_at(coding, "system").rstrip("/").endswith("mimic-d-items"):
            return True
    return False


def with_reasons(
    context: ExecutionContext, rows: Sequence[Row], what: str
) -> list[Row]:
    """The rows with their reasons. An encounter's diagnoses count among its reasons."""

    def add(row: Row, source: Source, resource: Resource) -> Row:
        reason = _reason(context, source, resource)
        facts = dict(row.facts)
        if not reason.names and source.type != "Encounter":
            reason = _reason_of_encounter(context, source, resource)
            if reason.names:
                facts["reason_of"] = ("visit",)
                context.warn(
                    f"The record names no reason of some of these {KINDS[what].plural}: "
                    "that of their visit stands in."
                )
        if not reason.names:
            return row
        facts["reason"] = reason.names
        return replace(
            row, facts=facts, reason_codings=reason.codings, reason_refs=reason.refs
        )

    return _with_details(context, rows, what, add)


def with_notes(context: ExecutionContext, rows: Sequence[Row], what: str) -> list[Row]:
    """The rows with their notes, which may say why something has its status."""

    def add(row: Row, _: Source, resource: Resource) -> Row:
        notes = names_at(context.chart, resource, ("note.text",))
        return replace(row, facts={**row.facts, "note": notes}) if notes else row

    return _with_details(context, rows, what, add)


def with_people_or_places(
    context: ExecutionContext, rows: Sequence[Row], what: str, field: str
) -> list[Row]:
    """The rows with their practitioners or places; those of the encounter where they have none."""
    chart = context.chart

    def add(row: Row, source: Source, resource: Resource) -> Row:
        names = _names_in_roles(chart, source, resource, field)
        if not names and source.by_encounter:
            for encounter in chart.targets(value_at(resource, source.encounter)):
                names = _names_in_roles(chart, ENCOUNTER, encounter, field)
            if names:
                context.warn(
                    f"The record names no {field} of some of these {KINDS[what].plural}: "
                    "that of their encounter stands in."
                )
        if not names:
            return row
        return replace(row, facts={**row.facts, field: names})

    return _with_details(context, rows, what, add)


def _with_details(
    context: ExecutionContext,
    rows: Sequence[Row],
    what: str,
    add: Callable[[Row, Source, Resource], Row],
) -> list[Row]:
    chart = context.chart
    chart.resolver.fetch({"reference": row.refs[0]} for row in rows)
    source_by_type = {source.type: source for source in KINDS[what].sources}
    detailed_rows = []
    for row in rows:
        resource = chart.resolver.resolve(row.refs[0])
        source = source_by_type.get(row.refs[0].partition("/")[0])
        if resource is not None and source is not None:
            row = add(row, source, resource)
        detailed_rows.append(row)
    return detailed_rows


def _reason(context: ExecutionContext, source: Source, resource: Resource) -> Detail:
    chart = context.chart
    elements = elements_at(resource, source.reasons)
    refs: dict[str, None] = {}
    for element in elements:
        for target in chart.targets(element):
            refs[f"{target['resourceType']}/{target['id']}"] = None
    recorded = Detail(
        names_of(chart, elements), codings_of(chart, elements), tuple(refs)
    )
    if source.type != "Encounter":
        return recorded
    diagnoses_by_encounter = chart.get_or_compute(
        "diagnoses by encounter", lambda: _diagnoses_by_encounter(chart)
    )
    diagnosed = diagnoses_by_encounter.get(str(resource["id"]), Detail())
    return Detail(
        names=tuple(dict.fromkeys((*recorded.names, *diagnosed.names))),
        codings=(*recorded.codings, *diagnosed.codings),
        refs=tuple(dict.fromkeys((*recorded.refs, *diagnosed.refs))),
    )


def _reason_of_encounter(
    context: ExecutionContext, source: Source, resource: Resource
) -> Detail:
    """The reason of the visit, where it is clear: a long stay has many diagnoses."""
    for encounter in context.chart.targets(value_at(resource, source.encounter)):
        reason = _reason(context, ENCOUNTER, encounter)
        if len(reason.names) <= _MAX_REASONS_OF_VISIT:
            return reason
    return Detail()


def _diagnoses_by_encounter(chart: Chart) -> dict[str, Detail]:
    details: dict[str, Detail] = {}
    for condition in chart.search("Condition"):
        encounter_id = reference_id(condition.get("encounter"))
        row = declared_row(chart, CONDITION, condition)
        if not encounter_id or not is_fact("diagnosis", row):
            continue
        known = details.get(encounter_id, Detail())
        names = tuple(dict.fromkeys((*known.names, row.name)))
        refs = (*known.refs, row.refs[0])
        details[encounter_id] = Detail(names, (*known.codings, *row.codings), refs)
    return details


def _names_in_roles(
    chart: Chart, source: Source, resource: Resource, field: str
) -> tuple[str, ...]:
    """The names of the people, or of the places, that a resource refers to, each once."""
    is_person = field == "practitioner"
    names: dict[str, None] = {}
    for path in source.people if is_person else source.places:
        accepts_unknown = is_person or path not in source.people
        for reference in elements_at(resource, (path,)):
            if accepts_unknown and not _type_of(chart.targets(reference), reference):
                names.update(dict.fromkeys(reference_names(chart, reference)))
            names.update(dict.fromkeys(_role_names(chart, reference, field)))
    return tuple(names)


def _role_names(chart: Chart, reference: Any, field: str) -> tuple[str, ...]:
    """The names of a person or place, or of those of a role or a team; else none."""
    targets = chart.targets(reference)
    paths = _PATHS_IN_ROLES.get((_type_of(targets, reference), field))
    members = [reference]
    if paths is not None and targets:
        members = elements_at(targets[0], paths)
    wanted = _PEOPLE if field == "practitioner" else _PLACES
    names: dict[str, None] = {}
    for member in members:
        if _type_of(chart.targets(member), member) in wanted:
            names.update(dict.fromkeys(reference_names(chart, member)[:1]))
    return tuple(names)


def _type_of(targets: list[Resource], reference: Any) -> str:
    """The type that a reference points to, also of a conditional or an unresolved one."""
    if targets:
        return str(targets[0]["resourceType"])
    declared = text_at(reference, "type")
    if declared:
        return declared
    text = text_at(reference, "reference")
    parsed = parse_reference(text) if text else None
    if parsed is not None and parsed.type:
        return parsed.type
    return text.partition("?")[0]
