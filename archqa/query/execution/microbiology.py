"""Rows of microbiology: tests of specimens, the organisms that grew, and their susceptibilities.

A test refers to its organisms, an organism to its susceptibilities (`hasMember`; the reverse is
`derivedFrom`). All rows have the time and the visit of the test: organisms and susceptibilities
have no encounter, and their time is that of storing.
"""

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from archqa.fhir import CodeCount, Resource
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import objects_at
from archqa.query.execution.measurements import code_matches_kind, observation_kind, observation_row
from archqa.query.execution.names import concept_code, concept_name, concept_names
from archqa.query.execution.rows import Row

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
