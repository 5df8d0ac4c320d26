"""Which search parameters put a resource into a compartment, from `compartments.tsv`.

Source: hl7.org/fhir/R4/compartmentdefinition-encounter.html.
"""

from functools import cache

from archqa.core.tables import read_rows
from archqa.fhir.values.search_parameters import Kind, parameters

R4_COMPARTMENTS = ("Device", "Encounter", "Patient", "Practitioner", "RelatedPerson")
"""All compartments of R4. The table has the definitions of those that are supported by it."""


@cache
def compartment_members(compartment: str) -> dict[str, tuple[str, ...]]:
    """Return the types in a compartment with their search parameters; empty if not supported."""
    members = {}
    for name, resource_type, names in read_rows("fhir/values/compartments.tsv", 3):
        if name == compartment:
            members[resource_type] = tuple(names.split())
    return members


def member_paths(compartment: str, resource_type: str) -> tuple[str, ...]:
    """Return the elements of a type that put it into a compartment.

    Empty if the type is not in it, or if this server has not the parameters that decide.
    """
    paths: list[str] = []
    for name in compartment_members(compartment).get(resource_type, ()):
        parameter = parameters(resource_type).get(name)
        if parameter is None or parameter.kind is not Kind.REFERENCE:
            return ()
        paths += parameter.elements
    return tuple(paths)
