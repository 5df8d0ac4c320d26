"""The elements of each resource type at its root: which are mandatory, which are in its summary.

Source: the StructureDefinitions of hl7.org/fhir/R4/resourcelist.html, in `resource_elements.tsv`.
"""

import re
from dataclasses import dataclass
from functools import cache

from archqa.core.tables import read_rows

ALWAYS = frozenset({"resourceType", "id", "meta", "implicitRules", "modifierExtension"})
"""Members that no part of a resource goes without: what it is, and what changes its meaning."""

_OF_ALL_TYPES = (*sorted(ALWAYS), "language", "text", "contained", "extension")
"""Elements of Resource and DomainResource (hl7.org/fhir/R4/domainresource.html)."""

_CHOICE = re.compile(r"(\w+)\[([\w,]+)\]")

MembersByElement = dict[str, frozenset[str]]
"""The JSON members of each element: those of `value` are `valueQuantity`, `valueString` …"""


@dataclass(frozen=True)
class ResourceElements:
    """The elements of a type. The sets hold JSON members; `summary` includes the mandatory ones.

    `members` knows a choice of types by all of its names: `value`, `value[x]`, `valueQuantity`.
    """

    mandatory: frozenset[str]
    summary: frozenset[str]
    members: MembersByElement


@cache
def resource_elements(resource_type: str) -> ResourceElements:
    """Return the elements of a type. Raises `KeyError` for a type that R4 does not have."""
    mandatory, summary, others = map(_members_by_element, _table()[resource_type])
    of_all_types = {name: frozenset({name}) for name in _OF_ALL_TYPES}
    mandatory_members = _all_members(mandatory)
    return ResourceElements(
        mandatory=mandatory_members,
        summary=mandatory_members | _all_members(summary),
        members={**of_all_types, **mandatory, **summary, **others},
    )


@cache
def elements_of_any_type() -> frozenset[str]:
    """Return the names of the elements that any type has."""
    names: set[str] = set()
    for resource_type in _table():
        names.update(resource_elements(resource_type).members)
    return frozenset(names)


@cache
def _table() -> dict[str, tuple[str, str, str]]:
    table = {}
    for resource_type, *elements in read_rows("fhir/values/resource_elements.tsv", 4):
        mandatory, summary, others = elements
        table[resource_type] = (mandatory, summary, others)
    return table


def _members_by_element(cell: str) -> MembersByElement:
    members: MembersByElement = {}
    for element in cell.split():
        choice = _CHOICE.fullmatch(element)
        if choice is None:
            members[element] = frozenset({element})
        else:
            members.update(_members_of_choice(choice[1], choice[2].split(",")))
    return members


def _members_of_choice(name: str, types: list[str]) -> MembersByElement:
    """Return `valueQuantity` and so on by their own names, and all of them by `value`."""
    members = {f"{name}{type_name}": frozenset({f"{name}{type_name}"}) for type_name in types}
    all_members = frozenset(members)
    return {**members, name: all_members, f"{name}[x]": all_members}


def _all_members(members: MembersByElement) -> frozenset[str]:
    return frozenset().union(*members.values())
