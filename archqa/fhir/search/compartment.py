"""What belongs to one patient.

Source: hl7.org/fhir/R4/compartmentdefinition-patient.html, patient-operation-everything.html.

Belonging is by `subject` or `patient` only: whom a resource is about, not who asserted or performed it.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from archqa.fhir.index import reference_graph
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Entry, Page
from archqa.fhir.search import chains, comparisons
from archqa.fhir.search.execution import Searcher
from archqa.fhir.values.dates import EARLIEST, LATEST, TimeRange, parse_time_range
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import parameters
from archqa.fhir.values.urls import build_search_url


def parse_compartment_path(path: str) -> tuple[str, list[tuple[str, str]]]:
    """The type a search path asks for, and the parameters that its compartment stands for. Raises `FhirError`."""
    parts = path.split("/")
    if parts[-1] == "_search":
        parts.pop()
    if len(parts) == 1:
        return parts[0], []
    if len(parts) == 3 and parts[0] == "Patient" and parts[2] in R4_RESOURCE_TYPES:
        if parts[2] == "Patient":
            return "Patient", [("_id", parts[1])]
        if "patient" in parameters(parts[2]):
            return parts[2], [("patient", parts[1])]
        raise FhirError(f"{parts[2]} is not in the compartment of a patient.", 404, "not-supported")
    if parts[0] not in R4_RESOURCE_TYPES:
        raise FhirError(
            f"There is no such resource type.{did_you_mean(parts[0], R4_RESOURCE_TYPES)}",
            404,
            "not-supported",
        )
    raise FhirError(
        "A search is written Type?name=value or Patient/id/Type?name=value.", 404, "not-supported"
    )


def patient_target_ids(connection: sqlite3.Connection, patient: str) -> list[int]:
    """The numbers by which a patient is referred to: `Patient/id`, and a bare `id`."""
    where = comparisons.reference_clause(patient, ("Patient",))
    return [
        t for (t,) in connection.execute(f"SELECT x.t FROM target x WHERE {where.sql}", where.args)
    ]


def patient_resource_ids(connection: sqlite3.Connection, patient: str) -> list[int]:
    """The number of the patient's own resource; nothing if there is none."""
    find = (
        "SELECT n FROM resource WHERE id = ? AND type = (SELECT k FROM type WHERE name = 'Patient')"
    )
    return [n for (n,) in connection.execute(find, (patient,))]


def owner_elements(connection: sqlite3.Connection) -> dict[int, str]:
    """The elements that say whose a resource is, by number, with their types."""
    rows = connection.execute(
        "SELECT p, type, path FROM element WHERE kind = 'reference'"
    ).fetchall()
    return {
        p: name
        for p, name, path in rows
        if "patient" in parameters(name) and path in parameters(name)["patient"].elements
    }


@dataclass(frozen=True)
class EverythingRequest:
    """What of a patient's record is asked for: one page, of some types, of care between two dates, changed since.

    Resources without a clinical date are in, whatever the dates. `start` and `end` are microseconds on the wall clock
    (half-open), `since` in UTC; `kept` are the parameters that the next page needs again.
    """

    count: int = 1000
    offset: int = 0
    types: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    since: int | None = None
    kept: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, params: Iterable[tuple[str, str]]) -> Self:
        """The parameters of `$everything`. Raises `FhirError` with what is wrong with them."""
        given = dict(params)
        types = tuple(each for each in given.get("_type", "").split(",") if each)
        for each in types:
            if each not in R4_RESOURCE_TYPES:
                raise FhirError(
                    f"_type names a type FHIR does not have.{did_you_mean(each, R4_RESOURCE_TYPES)}"
                )
        start, end, since = (_stretch(name, given.get(name)) for name in ("start", "end", "_since"))
        return cls(
            count=max(1, _whole("_count", given.get("_count", "1000"))),
            offset=_whole("_offset", given.get("_offset", "0")),
            types=types,
            start=start.low if start else None,
            end=end.high if end else None,
            since=since.low_utc if since else None,
            kept=tuple(
                (name, value) for name, value in given.items() if name not in {"_count", "_offset"}
            ),
        )


def _whole(name: str, text: str) -> int:
    if not (text.isdecimal() and len(text) < 10):
        raise FhirError(f"{name} must be a whole number.")
    return int(text)


def _stretch(name: str, text: str | None) -> TimeRange | None:
    if text is None:
        return None
    found = parse_time_range(text)
    if found is None:
        raise FhirError(f"{name} must be a date such as 2180-08-06.")
    return found


def fetch_everything(
    connection: sqlite3.Connection, searcher: Searcher, patient: str, wanted: EverythingRequest
) -> Page:
    """One page of all that a patient's record holds and refers to. Raises `FhirError` (404)."""
    first = patient_resource_ids(connection, patient)
    if not first:
        raise FhirError("There is no such patient.", 404, "not-found")
    found = dict.fromkeys([*first, *_theirs(connection, patient), *_reached(connection, patient)])
    numbers = [n for n in found if _is_wanted(connection, n, wanted)]
    offset, end = wanted.offset, wanted.offset + wanted.count
    here = f"Patient/{patient}/$everything"
    following = (*wanted.kept, ("_count", str(wanted.count)), ("_offset", str(end)))
    return Page(
        query=here,
        entries=tuple(
            Entry(kind, name, text) for kind, name, text in searcher.resources(numbers[offset:end])
        ),
        total=len(numbers),
        next=build_search_url(here, following) if end < len(numbers) else None,
        offset=offset,
        count=wanted.count,
    )


_CARE = "SELECT count(*), ifnull(max(x.low < ? AND x.high > ?), 0) FROM date x JOIN element e ON e.p = x.p"
_NOT_CARE = ("birthDate", "deceasedDateTime", "issued", "meta.lastUpdated")
"""Dates that tell of no care: when somebody was born, or when something was published."""


def _is_wanted(connection: sqlite3.Connection, n: int, wanted: EverythingRequest) -> bool:
    if wanted.types and _type(connection, n) not in wanted.types:
        return False
    if wanted.since is not None and _updated(connection, n) < wanted.since:
        return False
    if wanted.start is None and wanted.end is None:
        return True
    ends = (
        LATEST if wanted.end is None else wanted.end,
        EARLIEST if wanted.start is None else wanted.start,
    )
    find = f"{_CARE} WHERE x.n = ? AND e.path NOT IN ({', '.join('?' * len(_NOT_CARE))})"
    dated, within = connection.execute(find, (*ends, n, *_NOT_CARE)).fetchone()
    return not dated or bool(within)


def _updated(connection: sqlite3.Connection, n: int) -> int:
    return int(connection.execute("SELECT updated FROM resource WHERE n = ?", (n,)).fetchone()[0])


def _theirs(connection: sqlite3.Connection, patient: str) -> list[int]:
    return sorted(
        reference_graph.resources_referencing(
            connection,
            patient_target_ids(connection, patient),
            reference_graph.sql_number_list(owner_elements(connection)),
        )
    )


def _reached(connection: sqlite3.Connection, patient: str) -> list[int]:
    """What the patient's resources refer to and that is nobody's own: Locations, Medications, Practitioners …"""
    found: set[int] = set()
    for (name,) in connection.execute("SELECT name FROM type").fetchall():
        if "patient" not in parameters(name) and name != "Patient":
            found |= reached(connection, patient, name)
    return sorted(found)


def reached(connection: sqlite3.Connection, patient: str, resource_type: str) -> set[int]:
    """The resources of a type that a patient's record refers to."""
    targets = chains.reachable_targets(
        connection, resource_type, patient_target_ids(connection, patient)
    )
    return reference_graph.resources_of_targets(connection, targets, resource_type)


def _type(connection: sqlite3.Connection, n: int) -> str:
    find = "SELECT k.name FROM resource r JOIN type k ON k.k = r.type WHERE r.n = ?"
    return str(connection.execute(find, (n,)).fetchone()[0])
