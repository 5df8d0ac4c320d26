"""`$everything` of an encounter: its compartment, and what the resources in it refer to.

Sources: hl7.org/fhir/R4/encounter-operation-everything.html, compartmentdefinition-encounter.html.

References are read from the resources themselves, since not each of them can be searched by.
Resources of no patient (wards, drugs, people) bring what they refer to as well: a mix its
ingredients, a ward its hospital.
"""

import json
import re
from collections.abc import Iterable
from sqlite3 import Connection

from archqa.fhir.index import reference_graph
from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.outcome import FhirError
from archqa.fhir.values.compartments import compartment_members, member_paths
from archqa.fhir.values.references import ReferenceTarget, parse_reference
from archqa.fhir.values.search_parameters import parameters

_REFERENCE = re.compile(r'"(?:reference|url)"\s*:\s*("(?:[^"\\]|\\.)*")')
"""References, and the URLs of attachments, which may be of a Binary."""

_IDS_PER_STATEMENT = 5000


def resources_of_encounter(connection: Connection, encounter: str) -> list[int]:
    """Return the numbers of all resources of an encounter, itself first.

    Raises `FhirError` (404) if there is no such encounter.
    """
    own = resources_named(connection, [ReferenceTarget("Encounter", encounter)])
    if not own:
        raise FhirError("There is no such encounter.", 404, "not-found")
    members = members_of_encounter(connection, encounter) - own
    referenced = _referenced_by(connection, own | members)
    return [*own, *sorted(members), *sorted(referenced - own - members)]


def members_of_encounter(connection: Connection, encounter: str) -> set[int]:
    """Return the numbers of the resources in the compartment of an encounter, but itself."""
    sql = "SELECT t FROM target WHERE id = ? AND type IN ('Encounter', '')"
    targets = [t for (t,) in connection.execute(sql, (encounter,))]
    elements = sql_number_list(_member_elements(connection))
    return reference_graph.resources_referencing(connection, targets, elements)


def _member_elements(connection: Connection) -> list[int]:
    """Return the numbers of the elements that put a resource into the compartment."""
    paths = {name: member_paths("Encounter", name) for name in compartment_members("Encounter")}
    sql = "SELECT p, type, path FROM element WHERE kind = 'reference'"
    rows = connection.execute(sql).fetchall()
    return [p for p, resource_type, path in rows if path in paths.get(resource_type, ())]


def _referenced_by(connection: Connection, numbers: set[int]) -> set[int]:
    """Return what these resources refer to; references of resources of no patient are followed."""
    referenced: set[int] = set()
    new = numbers
    while new:
        targets = _targets_in_text(connection, new)
        targets |= _resolved_targets(connection, new)
        latest = resources_named(connection, targets) - referenced - numbers
        referenced |= latest
        new = _of_no_patient(connection, latest)
    return referenced


def _targets_in_text(connection: Connection, numbers: Iterable[int]) -> set[ReferenceTarget]:
    targets: set[ReferenceTarget] = set()
    for resource in ResourceReader(connection).read(sorted(numbers)):
        for literal in _REFERENCE.findall(resource.text):
            target = parse_reference(json.loads(literal))
            if target is not None:
                targets.add(target)
    return targets


def _resolved_targets(connection: Connection, numbers: Iterable[int]) -> set[ReferenceTarget]:
    """Return the indexed references: those by `urn:uuid:` within a bundle are resolved there."""
    targets: set[ReferenceTarget] = set()
    for part in reference_graph.sql_parts(numbers):
        references = f"SELECT t FROM reference WHERE n IN ({part})"
        rows = connection.execute(f"SELECT type, id FROM target WHERE t IN ({references})")
        targets.update(ReferenceTarget(*row) for row in rows)
    return targets


def resources_named(connection: Connection, targets: Iterable[ReferenceTarget]) -> set[int]:
    """Return the numbers of the resources that references name; without a type, of any type."""
    types_by_id: dict[str, set[str]] = {}
    for target in targets:
        types_by_id.setdefault(target.id, set()).add(target.type)
    numbers = set()
    ids = sorted(types_by_id)
    for start in range(0, len(ids), _IDS_PER_STATEMENT):
        part = ids[start : start + _IDS_PER_STATEMENT]
        marks = ", ".join("?" * len(part))
        sql = f"SELECT r.n, r.id, k.name FROM resource r JOIN type k ON k.k = r.type WHERE r.id IN ({marks})"
        for n, resource_id, resource_type in connection.execute(sql, part):
            if not types_by_id[resource_id].isdisjoint({resource_type, ""}):
                numbers.add(n)
    return numbers


def _of_no_patient(connection: Connection, numbers: Iterable[int]) -> set[int]:
    unowned = set()
    for part in reference_graph.sql_parts(numbers):
        sql = (
            f"SELECT r.n, k.name FROM resource r JOIN type k ON k.k = r.type WHERE r.n IN ({part})"
        )
        for n, resource_type in connection.execute(sql):
            is_owned = resource_type == "Patient" or "patient" in parameters(resource_type)
            if not is_owned:
                unowned.add(n)
    return unowned
