"""`$everything`: the record of a patient or of an encounter, and what it refers to.

Sources: hl7.org/fhir/R4/patient-operation-everything.html, encounter-operation-everything.html.

For an encounter, references are read from the resources themselves, since not each of them can be
searched by. Resources of no patient (wards, drugs, people) bring what they refer to as well: a mix
its ingredients, a ward its hospital.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any, Self

from archqa.fhir.index import reference_graph
from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.index.sql import first_column, sql_marks, sql_parts
from archqa.fhir.record import FhirError, Page
from archqa.fhir.search.compartments import (
    has_owner,
    members_of_encounter,
    patient_resources,
    resources_about,
    resources_reached,
)
from archqa.fhir.search.query import WHOLE, Pair, Subset, entry_of
from archqa.fhir.search.result_parameters import parse_subset
from archqa.fhir.search.searcher import Searcher
from archqa.fhir.search.value_clauses import SqlClause
from archqa.fhir.values.dates import EARLIEST, LATEST, TimeRange, parse_time_range
from archqa.fhir.values.references import ReferenceTarget, parse_reference
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import build_search_url

_PAGE_SIZE = 1000
"""Resources on a page by default."""

_NOT_CARE = ("birthDate", "deceasedDateTime", "issued", "meta.lastUpdated")
"""Dates that say nothing about the time of care, such as a birth or a publication."""

_REFERENCE = re.compile(r'"(?:reference|url)"\s*:\s*("(?:[^"\\]|\\.)*")')
"""References, and the URLs of attachments, which may be of a Binary."""


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
    next_page_params: tuple[Pair, ...] = ()

    @classmethod
    def from_params(cls, params: Iterable[Pair]) -> Self:
        """Parse the parameters of `$everything`. Raises `FhirError`."""
        pairs = list(params)
        values = dict(pairs)
        types = tuple(name for name in _joined("_type", pairs).split(",") if name)
        for name in types:
            if name not in R4_RESOURCE_TYPES:
                hint = did_you_mean(name, R4_RESOURCE_TYPES)
                raise FhirError(f"_type names a type FHIR does not have.{hint}")
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
            types=types,
            start=start.low if start else None,
            end=end.high if end else None,
            since=since.low_utc if since else None,
            subset=parse_subset(
                values.get("_summary", "false"), _joined("_elements", pairs)
            ),
            next_page_params=tuple(next_page_params),
        )

    @property
    def limits(self) -> tuple[Any, ...]:
        """What decides which resources are on the pages."""
        return (self.types, self.start, self.end, self.since)


def _joined(name: str, params: Iterable[Pair]) -> str:
    """Return all values of a parameter that may be repeated. Raises `FhirError` if they are empty."""
    values = [value for pair_name, value in params if pair_name == name]
    joined = ",".join(values)
    if values and not joined.replace(",", " ").strip():
        raise FhirError(f"{name} has no value.")
    return joined


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
        if owner.type == "Encounter":
            candidates = _resources_of_encounter(connection, owner.id)
        else:
            # The patient, what is about them, and the Locations and so on that this refers to.
            own = patient_resources(connection, owner.id)
            if not own:
                raise FhirError("There is no such patient.", 404, "not-found")
            referenced: set[int] = set()
            for resource_type in first_column(connection, "SELECT name FROM type"):
                if not has_owner(resource_type):
                    referenced |= resources_reached(connection, owner.id, resource_type)
            about = resources_about(connection, owner.id)
            candidates = dict.fromkeys([*own, *sorted(about), *sorted(referenced)])
        return [n for n in candidates if _passes(connection, n, request)]

    key = SqlClause("$everything", (*owner, request.limits))
    numbers = searcher.cached_numbers(key, find)
    counts_only = request.subset.summary == "count" or request.count == 0
    on_page = numbers[request.offset : request.offset + request.count]
    resources = ResourceReader(connection).fetch(() if counts_only else on_page)
    is_cut = not counts_only and len(resources) < len(on_page)
    page_size = len(resources) if is_cut else request.count
    end = request.offset + page_size
    path = f"{owner.type}/{owner.id}/$everything"
    next_url = None
    if resources and end < len(numbers):
        placed = (("_count", str(request.count)), ("_offset", str(end)))
        next_url = build_search_url(path, [*request.next_page_params, *placed])
    return Page(
        query=path,
        entries=tuple(entry_of(resource, request.subset) for resource in resources),
        total=len(numbers),
        next=next_url,
        offset=request.offset,
        count=page_size,
    )


def _resources_of_encounter(connection: Connection, encounter: str) -> Iterable[int]:
    """Return the encounter, its compartment, and what these refer to."""
    own = reference_graph.resources_named(
        connection, [ReferenceTarget("Encounter", encounter)]
    )
    if not own:
        raise FhirError("There is no such encounter.", 404, "not-found")
    members = members_of_encounter(connection, encounter) - own
    record = own | members
    referenced: set[int] = set()
    new = record
    while new:
        targets: set[ReferenceTarget] = set()
        for resource in ResourceReader(connection).read(sorted(new)):
            for literal in _REFERENCE.findall(resource.text):
                target = parse_reference(json.loads(literal))
                if target is not None:
                    targets.add(target)
        # References by `urn:uuid:` within a bundle are resolved in the index.
        for part in sql_parts(new):
            references = f"SELECT t FROM reference WHERE n IN ({part})"
            rows = connection.execute(
                f"SELECT type, id FROM target WHERE t IN ({references})"
            )
            targets.update(ReferenceTarget(*row) for row in rows)
        latest = (
            reference_graph.resources_named(connection, targets) - referenced - record
        )
        referenced |= latest
        # What belongs to no patient may refer to more.
        new = set()
        for part in sql_parts(latest):
            types = "SELECT r.n, k.name FROM resource r JOIN type k ON k.k = r.type"
            for n, resource_type in connection.execute(
                f"{types} WHERE r.n IN ({part})"
            ):
                if not has_owner(resource_type):
                    new.add(n)
    return [*own, *sorted(members), *sorted(referenced)]


def _passes(connection: Connection, n: int, request: EverythingRequest) -> bool:
    """Whether a resource is of the requested types, changes and dates of care."""
    sql = "SELECT k.name, r.updated FROM resource r JOIN type k ON k.k = r.type WHERE r.n = ?"
    if request.types or request.since is not None:
        resource_type, updated = connection.execute(sql, (n,)).fetchone()
        if request.types and resource_type not in request.types:
            return False
        if request.since is not None and updated < request.since:
            return False
    if request.start is None and request.end is None:
        return True
    start = EARLIEST if request.start is None else request.start
    end = LATEST if request.end is None else request.end
    sql = (
        "SELECT count(*), ifnull(max(x.low < ? AND x.high > ?), 0)"
        " FROM date x JOIN element e ON e.p = x.p"
        f" WHERE x.n = ? AND e.path NOT IN ({sql_marks(_NOT_CARE)})"
    )
    date_count, overlaps = connection.execute(
        sql, (end, start, n, *_NOT_CARE)
    ).fetchone()
    return date_count == 0 or bool(overlaps)
