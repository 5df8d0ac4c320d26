"""What belongs to one patient.

Source: hl7.org/fhir/R4/compartmentdefinition-patient.html, patient-operation-everything.html.

Belonging is by `subject` or `patient` only: whom a resource is about, not who asserted or performed it.
"""

import sqlite3

from archqa.fhir import comparing, pointing, reaching
from archqa.fhir.base import Entry, Page
from archqa.fhir.outcome import FhirError
from archqa.fhir.parameters import parameters
from archqa.fhir.resource_types import R4, did_you_mean
from archqa.fhir.searching import Searcher


def of(path: str) -> tuple[str, list[tuple[str, str]]]:
    """The type a search path asks for, and the parameters that its compartment stands for. Raises `FhirError`."""
    parts = path.split("/")
    if parts[-1] == "_search":
        parts.pop()
    if len(parts) == 1:
        return parts[0], []
    if len(parts) == 3 and parts[0] == "Patient" and parts[2] in R4:
        if parts[2] == "Patient":
            return "Patient", [("_id", parts[1])]
        if "patient" in parameters(parts[2]):
            return parts[2], [("patient", parts[1])]
        raise FhirError(f"{parts[2]} is not in the compartment of a patient.", 404, "not-supported")
    if parts[0] not in R4:
        raise FhirError(f"There is no such resource type.{did_you_mean(parts[0], R4)}", 404, "not-supported")
    raise FhirError("A search is written Type?name=value or Patient/id/Type?name=value.", 404, "not-supported")


def numbers(connection: sqlite3.Connection, patient: str) -> list[int]:
    """The numbers by which a patient is referred to: `Patient/id`, and a bare `id`."""
    where = comparing.reference(patient, ("Patient",))
    return [t for (t,) in connection.execute(f"SELECT x.t FROM target x WHERE {where.sql}", where.args)]


def numbered(connection: sqlite3.Connection, patient: str) -> list[int]:
    """The number of the patient's own resource; nothing if there is none."""
    find = "SELECT n FROM resource WHERE id = ? AND type = (SELECT k FROM type WHERE name = 'Patient')"
    return [n for (n,) in connection.execute(find, (patient,))]


def owning(connection: sqlite3.Connection) -> dict[int, str]:
    """The elements that say whose a resource is, by number, with their types."""
    rows = connection.execute("SELECT p, type, path FROM element WHERE kind = 'reference'").fetchall()
    return {
        p: name
        for p, name, path in rows
        if "patient" in parameters(name) and path in parameters(name)["patient"].elements
    }


def everything(
    connection: sqlite3.Connection, searcher: Searcher, patient: str, place: tuple[int, int], types: tuple[str, ...]
) -> Page:
    """One page (count, offset) of all that a patient's record holds and refers to. Raises `FhirError` (404)."""
    count, offset = place
    first = numbered(connection, patient)
    if not first:
        raise FhirError("There is no such patient.", 404, "not-found")
    found = dict.fromkeys([*first, *_theirs(connection, patient), *_reached(connection, patient)])
    wanted = [n for n in found if not types or _type(connection, n) in types]
    entries = searcher.resources(wanted[offset : offset + count])
    more = offset + count < len(wanted)
    here = f"Patient/{patient}/$everything"
    return Page(
        query=here,
        entries=tuple(Entry(kind, name, text) for kind, name, text in entries),
        total=len(wanted),
        next=f"{here}?_count={count}&_offset={offset + count}" if more else None,
        offset=offset,
        count=count,
    )


def _theirs(connection: sqlite3.Connection, patient: str) -> list[int]:
    return sorted(pointing.pointing_to(connection, numbers(connection, patient), pointing.listed(owning(connection))))


def _reached(connection: sqlite3.Connection, patient: str) -> list[int]:
    """What the patient's resources refer to and that is nobody's own: Locations, Medications, Practitioners …"""
    found: set[int] = set()
    for (name,) in connection.execute("SELECT name FROM type").fetchall():
        if "patient" not in parameters(name) and name != "Patient":
            found |= reached(connection, patient, name)
    return sorted(found)


def reached(connection: sqlite3.Connection, patient: str, resource_type: str) -> set[int]:
    """The resources of a type that a patient's record refers to."""
    targets = reaching.reached(connection, resource_type, numbers(connection, patient))
    return pointing.resources_of(connection, targets, resource_type)


def _type(connection: sqlite3.Connection, n: int) -> str:
    find = "SELECT k.name FROM resource r JOIN type k ON k.k = r.type WHERE r.n = ?"
    return str(connection.execute(find, (n,)).fetchone()[0])
