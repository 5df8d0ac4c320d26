"""Rows of microbiology: a test of a specimen, the organisms that grew, what they are susceptible to.

A test refers to its organisms, an organism to its susceptibilities (`hasMember`; backwards `derivedFrom`). All rows
have the time and the visit of the test: organisms and susceptibilities have no encounter, and the time of storing.
"""

from dataclasses import replace

from archqa.fhir import Resource
from archqa.query.execution.chart import reference_id
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import objects_at
from archqa.query.execution.measurements import code_matches_kind, observation_kind, observation_row
from archqa.query.execution.names import concept_code, concept_names
from archqa.query.execution.rows import Row

_SORTS = ("microbiology_test", "organism", "susceptibility")


def microbiology(inquiry: ExecutionContext, what: str) -> list[Row]:
    """Rows of tests, of organisms or of susceptibilities."""
    return inquiry.chart.get_or_compute(what, lambda: _rows(inquiry, what))


def _rows(inquiry: ExecutionContext, what: str) -> list[Row]:
    found = _fetched(inquiry)
    inquiry.chart.resolver.fetch(
        each.get("specimen") for each in found if observation_kind(each) == "microbiology_test"
    )
    members = _members(found)
    rows = []
    for test in found:
        if observation_kind(test) == "microbiology_test":
            rows += _of_test(inquiry, what, test, members)
    return rows


def _fetched(inquiry: ExecutionContext) -> list[Resource]:
    return inquiry.chart.observations(
        lambda code: (
            code.element == "code" and any(code_matches_kind(code, sort) for sort in _SORTS)
        ),
        (),
        {},
    )


def _members(found: list[Resource]) -> dict[str, list[Resource]]:
    """By an Observation's id, what belongs to it, named from either end."""
    by_id = {str(each["id"]): each for each in found}
    members: dict[str, dict[str, Resource]] = {}
    for each in found:
        for reference in objects_at(each, "hasMember"):
            below = by_id.get(reference_id(reference))
            if below is not None:
                members.setdefault(str(each["id"]), {})[str(below["id"])] = below
        for reference in objects_at(each, "derivedFrom"):
            members.setdefault(reference_id(reference), {})[str(each["id"])] = each
    return {name: list(below.values()) for name, below in members.items()}


def _of_test(
    inquiry: ExecutionContext, what: str, test: Resource, members: dict[str, list[Resource]]
) -> list[Row]:
    """The rows of one test: itself, or one for each organism or susceptibility."""
    base = observation_row(inquiry, test)
    specimen = inquiry.chart.resolver.specimen(test)
    facts = {"specimen": concept_names((specimen or {}).get("type"))}
    base = replace(base, context_refs=(f"Specimen/{specimen['id']}",) if specimen else ())
    organisms = members.get(str(test["id"]), [])
    if what == "microbiology_test":
        below = [each for organism in organisms for each in members.get(str(organism["id"]), [])]
        grown = tuple(dict.fromkeys(_name(each) for each in organisms))
        refs = (*base.refs, *map(_ref, organisms), *map(_ref, below))
        return [replace(base, refs=refs, facts={**facts, "organism": grown})]
    rows = []
    for organism in organisms:
        tested = members.get(str(organism["id"]), [])
        own = {**facts, "organism": (_name(organism),)}
        if what == "organism":
            rows.append(
                _below(
                    inquiry, base, organism, (_ref(organism), *base.refs, *map(_ref, tested)), own
                )
            )
        else:
            refs = (*base.refs, _ref(organism))
            rows += [_below(inquiry, base, each, (_ref(each), *refs), own) for each in tested]
    return rows


def _below(
    inquiry: ExecutionContext,
    test: Row,
    member: Resource,
    refs: tuple[str, ...],
    facts: dict[str, tuple[str, ...]],
) -> Row:
    own = observation_row(inquiry, member)
    code = concept_code(member.get("valueCodeableConcept"))
    facts = {**facts, "result": tuple(dict.fromkeys(each for each in (code, own.text) if each))}
    return replace(
        own,
        refs=refs,
        context_refs=test.context_refs,
        time=test.time,
        visit=test.visit,
        icu_stay_id=test.icu_stay_id,
        facts=facts,
    )


def _name(observation: Resource) -> str:
    return next(iter(concept_names(observation.get("code"))), "")


def _ref(observation: Resource) -> str:
    return f"Observation/{observation['id']}"
