"""Compartments: the resources about one patient, or of one encounter; and `$everything`.

Sources: hl7.org/fhir/R4/compartmentdefinition.html, compartmentdefinition-patient.html,
compartmentdefinition-encounter.html, patient-operation-everything.html.

For a patient, `subject` or `patient` decide: whom a resource is about, not who asserted or
performed it. For an encounter, R4's definition decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any, Self

from archqa.fhir.index import reference_graph
from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Page
from archqa.fhir.search.everything import resources_of_encounter
from archqa.fhir.search.reachable_targets import reachable_targets
from archqa.fhir.search.result_parameters import check_subset, parse_elements, parse_summary
from archqa.fhir.search.searcher import Searcher
from archqa.fhir.search.shared_resources import owner_elements
from archqa.fhir.search.summaries import WHOLE, Subset, entry_of
from archqa.fhir.search.value_clauses import SqlClause, reference_clause
from archqa.fhir.values.compartments import (
    R4_COMPARTMENTS,
    compartment_members,
    member_paths,
)
from archqa.fhir.values.dates import EARLIEST, LATEST, TimeRange, parse_time_range
from archqa.fhir.values.references import ReferenceTarget, RequestPath
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import parameters
from archqa.fhir.values.urls import Params, build_search_url, escape

SUPPORTED_COMPARTMENTS = ("Patient", "Encounter")

_PAGE_SIZE = 1000
"""Resources on a page of `$everything` by default."""


def search_within(path: RequestPath) -> Params:
    """Return the parameters that the compartment of a search path means: none without one.

    Raises `FhirError` for a path that is no search.
    """
    compartment, resource_type = path.type, path.tail
    if not path.id and not path.is_operation:
        return []
    if compartment not in R4_RESOURCE_TYPES:
        hint = did_you_mean(compartment, R4_RESOURCE_TYPES)
        raise FhirError(f"There is no such resource type.{hint}", 404, "not-supported")
    is_search = resource_type and "/" not in resource_type and not path.is_operation
    if not is_search or compartment not in R4_COMPARTMENTS:
        message = "A search is written Type?name=value or Patient/id/Type?name=value."
        raise FhirError(message, 404, "not-supported")
    if resource_type == "*":
        problem = "A search of all types of a compartment is not supported"
        alternative = "name a type, or ask for $everything"
        raise FhirError(f"{problem}: {alternative}.", 404, "not-supported")
    if resource_type not in R4_RESOURCE_TYPES:
        hint = did_you_mean(resource_type, R4_RESOURCE_TYPES)
        message = f"There is no such resource type in a compartment.{hint}"
        raise FhirError(message, 404, "not-supported")
    if compartment not in SUPPORTED_COMPARTMENTS:
        supported = " and ".join(SUPPORTED_COMPARTMENTS)
        problem = f"The compartment of a {compartment} is not supported"
        raise FhirError(f"{problem}; those of {supported} are.", 404, "not-supported")
    if resource_type == compartment:
        return [("_id", escape(path.id))]
    name = _deciding_parameter(compartment, resource_type)
    if not name:
        message = f"{resource_type} is not in the compartment of a {compartment}."
        raise FhirError(message, 404, "not-supported")
    # `context` may refer to an episode of care as well, so that an encounter is named with its type.
    value = path.id if compartment == "Patient" else f"{compartment}/{path.id}"
    return [(name, escape(value))]


def _deciding_parameter(compartment: str, resource_type: str) -> str:
    """Return the parameter that decides what is in a compartment; empty for a type outside of it.

    Raises `FhirError` if this server does not have the parameter.
    """
    known = parameters(resource_type)
    if compartment == "Patient":
        return "patient" if "patient" in known else ""
    names = compartment_members(compartment).get(resource_type, ())
    if names and not member_paths(compartment, resource_type):
        problem = f"{resource_type} in the compartment of a {compartment} is not supported"
        raise FhirError(f"{problem}: it cannot be searched by {names[0]}.", 404, "not-supported")
    return names[0] if names else ""


def patient_target_ids(connection: Connection, patient: str) -> list[int]:
    """Return the numbers of the targets `Patient/id` and `id`."""
    where = reference_clause(patient, ("Patient",))
    rows = connection.execute(f"SELECT x.t FROM target x WHERE {where.sql}", where.args)
    return [t for (t,) in rows]


def patient_resource_ids(connection: Connection, patient: str) -> list[int]:
    """Return the number of the Patient resource in a list, which is empty if there is none."""
    type_id = "(SELECT k FROM type WHERE name = 'Patient')"
    sql = f"SELECT n FROM resource WHERE id = ? AND type = {type_id}"
    return [n for (n,) in connection.execute(sql, (patient,))]


@dataclass(frozen=True)
class EverythingRequest:
    """A request for a page of `$everything`, perhaps limited to types, dates of care or changes.

    Resources without a clinical date pass any limit of dates. `start` and `end` are microseconds on
    the wall clock (half-open), `since` in UTC. The link to the next page repeats
    `next_page_params`. Without a `count` (0), only the total is asked for.
    """

    count: int = _PAGE_SIZE
    offset: int = 0
    types: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None
    since: int | None = None
    subset: Subset = WHOLE
    next_page_params: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_params(cls, params: Iterable[tuple[str, str]]) -> Self:
        """Parse the parameters of `$everything`. Raises `FhirError`."""
        pairs = list(params)
        values = dict(pairs)
        start = _parse_date("start", values)
        end = _parse_date("end", values)
        since = _parse_date("_since", values)
        next_page_params = []
        for name, value in pairs:
            if name not in {"_count", "_offset"}:
                next_page_params.append((name, value))
        return cls(
            count=_parse_number("_count", values, _PAGE_SIZE),
            offset=_parse_number("_offset", values, 0),
            types=_parse_types(_joined("_type", pairs)),
            start=start.low if start else None,
            end=end.high if end else None,
            since=since.low_utc if since else None,
            subset=_parse_subset(values.get("_summary", "false"), _joined("_elements", pairs)),
            next_page_params=tuple(next_page_params),
        )

    @property
    def counts_only(self) -> bool:
        """Whether the total is all that is asked for: `_summary=count` or `_count=0`."""
        return self.subset.summary == "count" or self.count == 0

    @property
    def limits(self) -> tuple[Any, ...]:
        """What decides which resources are on the pages."""
        return (self.types, self.start, self.end, self.since)


def _joined(name: str, params: Iterable[tuple[str, str]]) -> str:
    """Return all values of a parameter that may be repeated. Raises `FhirError` if they are empty."""
    values = [value for pair_name, value in params if pair_name == name]
    if values and not any(value.strip(" ,") for value in values):
        raise FhirError(f"{name} has no value.")
    return ",".join(values)


def _parse_subset(summary: str, elements: str) -> Subset:
    requested = parse_elements(elements)
    if requested.unknown:
        raise FhirError(requested.unknown)
    subset = Subset(requested.names, parse_summary(summary))
    check_subset(subset)
    return subset


def _parse_types(text: str) -> tuple[str, ...]:
    types = tuple(name for name in text.split(",") if name)
    for name in types:
        if name not in R4_RESOURCE_TYPES:
            hint = did_you_mean(name, R4_RESOURCE_TYPES)
            raise FhirError(f"_type names a type FHIR does not have.{hint}")
    return types


def _parse_number(name: str, values: dict[str, str], default: int) -> int:
    text = values.get(name, str(default))
    if not (text.isdecimal() and len(text) < 10):
        raise FhirError(f"{name} must be a whole number.")
    return int(text)


def _parse_date(name: str, values: dict[str, str]) -> TimeRange | None:
    if name not in values:
        return None
    time_range = parse_time_range(values[name])
    if time_range is None:
        raise FhirError(f"{name} must be a date such as 2180-08-06.")
    return time_range


def fetch_everything(
    connection: Connection,
    searcher: Searcher,
    owner: ReferenceTarget,
    request: EverythingRequest,
) -> Page:
    """Return one page of the record of a patient or an encounter, and of what it refers to.

    Raises `FhirError` (404) if there is no such resource.
    """

    def find() -> list[int]:
        candidates = _resources_of(connection, owner)
        return [n for n in candidates if _passes(connection, n, request)]

    key = SqlClause("$everything", (*owner, request.limits))
    numbers = searcher.cached_numbers(key, find)
    on_page = numbers[request.offset : request.offset + request.count]
    if request.counts_only:
        on_page = []
    resources = ResourceReader(connection).fetch(on_page)
    is_cut = len(resources) < len(on_page)
    page_size = len(resources) if is_cut else request.count
    end = request.offset + page_size
    has_next = bool(on_page) and end < len(numbers)
    return Page(
        query=_everything_path(owner),
        entries=tuple(entry_of(resource, request.subset) for resource in resources),
        total=len(numbers),
        next=_next_page_url(owner, request, end) if has_next else None,
        offset=request.offset,
        count=page_size,
    )


def _resources_of(connection: Connection, owner: ReferenceTarget) -> Iterable[int]:
    if owner.type == "Encounter":
        return resources_of_encounter(connection, owner.id)
    return _resources_of_patient(connection, owner.id)


def _resources_of_patient(connection: Connection, patient: str) -> Iterable[int]:
    own = patient_resource_ids(connection, patient)
    if not own:
        raise FhirError("There is no such patient.", 404, "not-found")
    about = _resources_about(connection, patient)
    referenced = _unowned_resources(connection, patient)
    return dict.fromkeys([*own, *about, *referenced])


def _everything_path(owner: ReferenceTarget) -> str:
    return f"{owner.type}/{owner.id}/$everything"


def _next_page_url(owner: ReferenceTarget, request: EverythingRequest, next_offset: int) -> str:
    params = [
        *request.next_page_params,
        ("_count", str(request.count)),
        ("_offset", str(next_offset)),
    ]
    return build_search_url(_everything_path(owner), params)


_NOT_CARE = ("birthDate", "deceasedDateTime", "issued", "meta.lastUpdated")
"""Dates that say nothing about the time of care, such as a birth or a publication."""


def _passes(connection: Connection, n: int, request: EverythingRequest) -> bool:
    if request.types and _type(connection, n) not in request.types:
        return False
    if request.since is not None and _updated(connection, n) < request.since:
        return False
    if request.start is None and request.end is None:
        return True
    return _overlaps_care_dates(connection, n, request)


def _overlaps_care_dates(connection: Connection, n: int, request: EverythingRequest) -> bool:
    """Whether a resource has a date of care in the requested range, or none at all."""
    start = EARLIEST if request.start is None else request.start
    end = LATEST if request.end is None else request.end
    marks = ", ".join("?" * len(_NOT_CARE))
    sql = (
        "SELECT count(*), ifnull(max(x.low < ? AND x.high > ?), 0)"
        " FROM date x JOIN element e ON e.p = x.p"
        f" WHERE x.n = ? AND e.path NOT IN ({marks})"
    )
    date_count, overlaps = connection.execute(sql, (end, start, n, *_NOT_CARE)).fetchone()
    return date_count == 0 or bool(overlaps)


def _type(connection: Connection, n: int) -> str:
    sql = "SELECT k.name FROM resource r JOIN type k ON k.k = r.type WHERE r.n = ?"
    return str(connection.execute(sql, (n,)).fetchone()[0])


def _updated(connection: Connection, n: int) -> int:
    sql = "SELECT updated FROM resource WHERE n = ?"
    return int(connection.execute(sql, (n,)).fetchone()[0])


def _resources_about(connection: Connection, patient: str) -> list[int]:
    targets = patient_target_ids(connection, patient)
    elements = sql_number_list(owner_elements(connection))
    return sorted(reference_graph.resources_referencing(connection, targets, elements))


def _unowned_resources(connection: Connection, patient: str) -> list[int]:
    """Return the Locations, Medications and so on that the patient's resources refer to."""
    numbers: set[int] = set()
    for (resource_type,) in connection.execute("SELECT name FROM type").fetchall():
        is_owned = resource_type == "Patient" or "patient" in parameters(resource_type)
        if not is_owned:
            numbers |= reached(connection, patient, resource_type)
    return sorted(numbers)


def reached(connection: Connection, patient: str, resource_type: str) -> set[int]:
    """Return the resources of a type that a patient's record refers to."""
    patients = patient_target_ids(connection, patient)
    targets = reachable_targets(connection, resource_type, patients)
    return reference_graph.resources_of_targets(connection, targets, resource_type)
