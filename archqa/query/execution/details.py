"""Who, where and why: what a row refers to, looked up only for queries that ask for it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archqa.fhir import Resource
from archqa.fhir.values.references import parse_reference
from archqa.query.execution.chart import Chart, reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.element_names import (
    codings_of,
    elements_at,
    names_of,
    reference_names,
)
from archqa.query.execution.elements import text_at, value_at
from archqa.query.execution.rows import Coding, Row
from archqa.query.execution.statuses import is_fact
from archqa.query.kinds import CONDITION, ENCOUNTER, KINDS, Source

_PEOPLE = frozenset({"Practitioner", "RelatedPerson"})
_PLACES = frozenset({"Organization", "Location", "HealthcareService"})


class Detail(NamedTuple):
    """Names and codes of what a row refers to, and the resources (`Type/id`) that state them."""

    names: tuple[str, ...] = ()
    codings: tuple[Coding, ...] = ()
    refs: tuple[str, ...] = ()


_MAX_REASONS_OF_VISIT = 3
"""With more reasons than these, a visit does not tell for which of them something was given."""


def with_reasons(context: ExecutionContext, rows: Sequence[Row], what: str) -> list[Row]:
    """The rows with their reasons. An encounter's diagnoses count among its reasons."""

    def add(row: Row, source: Source, resource: Resource) -> Row:
        reason = _reason(context, source, resource)
        if not reason.names and source.type != "Encounter":
            reason = _reason_of_encounter(context, source, resource)
            if reason.names:
                context.warn(
                    f"The record names no reason of some of these {KINDS[what].plural}: "
                    "that of their visit stands in."
                )
        if not reason.names:
            return row
        facts = {**row.facts, "reason": reason.names}
        return replace(row, facts=facts, reason_codings=reason.codings, reason_refs=reason.refs)

    return _with_details(context, rows, what, add)


def with_people_or_places(
    context: ExecutionContext, rows: Sequence[Row], what: str, field: str
) -> list[Row]:
    """The rows with their practitioners or places; those of the encounter where they have none."""

    def add(row: Row, source: Source, resource: Resource) -> Row:
        names, stands_in = _people_or_places(context.chart, source, resource, field)
        if stands_in:
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
            refs[_ref(target)] = None
    recorded = Detail(names_of(chart, elements), codings_of(chart, elements), tuple(refs))
    if source.type != "Encounter":
        return recorded
    made_there = _diagnoses_at(context, str(resource["id"]))
    return Detail(
        names=tuple(dict.fromkeys((*recorded.names, *made_there.names))),
        codings=(*recorded.codings, *made_there.codings),
        refs=tuple(dict.fromkeys((*recorded.refs, *made_there.refs))),
    )


def _reason_of_encounter(context: ExecutionContext, source: Source, resource: Resource) -> Detail:
    """The reason of the visit, where it is clear: a long stay has many diagnoses."""
    for encounter in context.chart.targets(value_at(resource, source.encounter)):
        reason = _reason(context, ENCOUNTER, encounter)
        if len(reason.names) <= _MAX_REASONS_OF_VISIT:
            return reason
    return Detail()


def _diagnoses_at(context: ExecutionContext, encounter_id: str) -> Detail:
    """The diagnoses that were recorded at an encounter."""
    by_encounter = context.chart.get_or_compute(
        "diagnoses by encounter", lambda: _diagnoses_by_encounter(context.chart)
    )
    return by_encounter.get(encounter_id, Detail())


def _diagnoses_by_encounter(chart: Chart) -> dict[str, Detail]:
    from archqa.query.execution.declared_rows import declared_row

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


def _people_or_places(
    chart: Chart, source: Source, resource: Resource, field: str
) -> tuple[tuple[str, ...], bool]:
    """The names, and whether those of the encounter stand in."""
    names = _names_in_roles(chart, source, resource, field)
    if names or not source.by_encounter:
        return names, False
    for encounter in chart.targets(value_at(resource, source.encounter)):
        names = _names_in_roles(chart, ENCOUNTER, encounter, field)
    return names, bool(names)


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
    if paths is None or not targets:
        return _direct_names(chart, reference, field)
    names: dict[str, None] = {}
    for member in elements_at(targets[0], paths):
        names.update(dict.fromkeys(_direct_names(chart, member, field)))
    return tuple(names)


def _direct_names(chart: Chart, reference: Any, field: str) -> tuple[str, ...]:
    """The name of a person or place; none if the reference points to something else."""
    wanted = _PEOPLE if field == "practitioner" else _PLACES
    if _type_of(chart.targets(reference), reference) not in wanted:
        return ()
    return reference_names(chart, reference)[:1]


_PATHS_IN_ROLES = {
    ("PractitionerRole", "practitioner"): ("practitioner",),
    ("PractitionerRole", "place"): ("organization", "location"),
    ("CareTeam", "practitioner"): ("participant.member",),
    ("CareTeam", "place"): ("managingOrganization",),
}


def _type_of(targets: list[Resource], reference: Any) -> str:
    """The type that a reference points to, also of a conditional or an unresolved one."""
    if targets:
        return str(targets[0]["resourceType"])
    declared = text_at(reference, "type")
    text = text_at(reference, "reference")
    parsed = parse_reference(text) if text else None
    if declared or (parsed is not None and parsed.type):
        return declared or (parsed.type if parsed else "")
    return text.partition("?")[0]


def _ref(resource: Resource) -> str:
    return f"{resource['resourceType']}/{resource['id']}"
