"""Compartments: the resources about one patient, or of one encounter, and what they refer to.

Sources: hl7.org/fhir/R4/compartmentdefinition.html, compartmentdefinition-patient.html,
compartmentdefinition-encounter.html.

For a patient, `subject` or `patient` decide: whom a resource is about, not who asserted or
performed it. For an encounter, R4's definition decides.

Rows of a resource of many patients are not repeated for each of them (`SHARED` in `schema`): a
search of such a type must not look at the rows of its patient alone.
"""

from collections.abc import Iterable
from sqlite3 import Connection

from archqa.fhir.index.reference_graph import (
    resources_of_targets,
    resources_referencing,
    targets_referenced_by,
    targets_referenced_by_patients,
)
from archqa.fhir.index.schema import SHARED
from archqa.fhir.index.sql import first_column, sql_number_list
from archqa.fhir.record import FhirError
from archqa.fhir.search.value_clauses import any_of, reference_clause
from archqa.fhir.values.names import names_by_key
from archqa.fhir.values.references import RequestPath
from archqa.fhir.values.resource_types import check_resource_type
from archqa.fhir.values.search_parameters import (
    R4_COMPARTMENTS,
    member_paths,
    parameters,
)
from archqa.fhir.values.urls import Params, escape

SUPPORTED_COMPARTMENTS = ("Patient", "Encounter")


def search_within(path: RequestPath) -> Params:
    """Return the parameters that the compartment of a search path means: none without one.

    Raises `FhirError` for a path that is no search.
    """
    compartment, resource_type = path.type, path.tail
    if not path.id and not path.is_operation:
        return []
    check_resource_type(compartment)
    is_search = resource_type and "/" not in resource_type and not path.is_operation
    if not is_search or compartment not in R4_COMPARTMENTS:
        raise _no_search(
            "A search is written Type?name=value or Patient/id/Type?name=value."
        )
    if resource_type == "*":
        problem = "A search of all types of a compartment is not supported"
        raise _no_search(f"{problem}: name a type, or ask for $everything.")
    check_resource_type(resource_type)
    if compartment not in SUPPORTED_COMPARTMENTS:
        supported = " and ".join(SUPPORTED_COMPARTMENTS)
        problem = f"The compartment of a {compartment} is not supported"
        raise _no_search(f"{problem}; those of {supported} are.")
    if resource_type == compartment:
        return [("_id", escape(path.id))]
    if compartment == "Patient":
        name, value = "patient", path.id
        is_member = name in parameters(resource_type)
    else:
        # `context` may refer to an episode of care as well, so that an encounter has its type.
        names = names_by_key(compartment).get(resource_type, ())
        name, value = "".join(names[:1]), f"{compartment}/{path.id}"
        is_member = name != ""
        if is_member and not member_paths(compartment, resource_type):
            problem = f"{resource_type} in the compartment of a {compartment} is not supported"
            raise _no_search(f"{problem}: it cannot be searched by {name}.")
    if not is_member:
        raise _no_search(
            f"{resource_type} is not in the compartment of a {compartment}."
        )
    return [(name, escape(value))]


def _no_search(message: str) -> FhirError:
    return FhirError(message, 404, "not-supported")


def patient_targets(connection: Connection, patients: Iterable[str]) -> list[int]:
    """Return the numbers of the targets that name these patients: `Patient/id` and `id`."""
    where = any_of([reference_clause(patient, ("Patient",)) for patient in patients])
    sql = f"SELECT x.t FROM target x WHERE {where.sql}"
    return first_column(connection, sql, where.args)


def patient_resources(connection: Connection, patient: str) -> list[int]:
    """Return the number of the Patient resource in a list, which is empty if there is none."""
    type_id = "(SELECT k FROM type WHERE name = 'Patient')"
    sql = f"SELECT n FROM resource WHERE id = ? AND type = {type_id}"
    return first_column(connection, sql, (patient,))


def owner_elements(connection: Connection) -> dict[int, str]:
    """Return the elements that name a resource's patient: number and type."""
    elements = {}
    for p, resource_type, path in reference_elements(connection):
        parameter = parameters(resource_type).get("patient")
        if parameter is not None and path in parameter.elements:
            elements[p] = resource_type
    return elements


def reference_elements(connection: Connection) -> list[tuple[int, str, str]]:
    """Return number, type and path of the elements that are references."""
    return connection.execute(
        "SELECT p, type, path FROM element WHERE kind = 'reference'"
    ).fetchall()


def resources_about(connection: Connection, patient: str) -> set[int]:
    """Return the resources that name a patient as the one whom they are about."""
    elements = sql_number_list(owner_elements(connection))
    return resources_referencing(
        connection, patient_targets(connection, [patient]), elements
    )


def members_of_encounter(connection: Connection, encounter: str) -> set[int]:
    """Return the numbers of the resources in the compartment of an encounter, but itself."""
    sql = "SELECT t FROM target WHERE id = ? AND type IN ('Encounter', '')"
    targets = first_column(connection, sql, (encounter,))
    elements = []
    for p, resource_type, path in reference_elements(connection):
        if path in member_paths("Encounter", resource_type):
            elements.append(p)
    return resources_referencing(connection, targets, sql_number_list(elements))


def resources_shared_by(connection: Connection, patients: Iterable[int]) -> set[int]:
    """Return the shared resources that are about any of these patients."""
    names = connection.execute(
        "SELECT name FROM setting WHERE name >= ? AND name < ?",
        (SHARED, f"{SHARED}\U0010ffff"),
    ).fetchall()
    types = {name.removeprefix(SHARED) for (name,) in names}
    if not types:
        return set()
    elements = [
        p for p, owner_type in owner_elements(connection).items() if owner_type in types
    ]
    return resources_referencing(connection, patients, sql_number_list(elements))


def has_owner(resource_type: str) -> bool:
    """Whether resources of a type are about a patient; wards, drugs and people are not."""
    return resource_type == "Patient" or "patient" in parameters(resource_type)


def resources_reached(
    connection: Connection, patient: str, resource_type: str
) -> set[int]:
    """Return the resources of a type that a patient's record refers to."""
    patients = patient_targets(connection, [patient])
    targets = reachable_targets(connection, resource_type, patients)
    return resources_of_targets(connection, targets, resource_type)


def reachable_targets(
    connection: Connection,
    resource_type: str,
    patients: Iterable[int],
) -> set[int]:
    """Return the targets that the resources of these patients refer to and that may be of the type.

    References within the type are followed: from a mix to its ingredients, from a room to its ward.
    Those to the resource's patient do not count.
    """
    outer: list[int] = []
    inner: list[int] = []
    for p, source_type, path in reference_elements(connection):
        types: set[str] = set()
        for parameter in parameters(source_type).values():
            if path in parameter.elements and parameter.name not in {
                "patient",
                "subject",
            }:
                types.update(parameter.targets or ("",))
        if not types.isdisjoint({resource_type, ""}):
            elements = inner if source_type == resource_type else outer
            elements.append(p)
    outer_elements, inner_elements = sql_number_list(outer), sql_number_list(inner)
    patients = list(patients)
    targets = targets_referenced_by_patients(connection, patients, outer_elements)
    shared = resources_shared_by(connection, patients)
    targets |= targets_referenced_by(connection, shared, outer_elements)
    new = targets if inner_elements else set()
    while new:
        resources = resources_of_targets(connection, new, resource_type)
        new = targets_referenced_by(connection, resources, inner_elements) - targets
        targets |= new
    return targets
