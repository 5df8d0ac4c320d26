"""Reading a record in SQLite: the common base of `Store` and `Overlay`."""

import math
import sqlite3
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Self

from archqa.errors import InputError
from archqa.fhir.index.blobs import ResourceReader, StoredResource
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.record import CodeCount, Entry, Page, Resource, SearchParams
from archqa.fhir.request_budget import (
    CHUNK_LIMITS,
    BudgetedConnection,
    check_budget,
    count_resource,
    current_budget,
)
from archqa.fhir.search import compartment, statistics
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.search.query import Query
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.search.searcher import ResultKey, Searcher
from archqa.fhir.search.value_clauses import SqlClause
from archqa.fhir.values.json_spans import parse
from archqa.fhir.values.references import ReferenceTarget, parse_path
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import flatten_params, parse_search_url

_STEPS_BETWEEN_TIME_CHECKS = 20_000
"""Instructions of SQLite's virtual machine between two checks of the time limit: about 1 ms."""

_MAX_CACHED_RESULTS = 128
"""Results that a session caches: at most 400 kB each, mostly far less."""


class ReadSession:
    """One connection, with caches of what it has read."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.totals: dict[SqlClause, int] = {}
        self.results: dict[ResultKey, array[int] | None] = {}
        self._version = (-1, -1)

    def refresh(self) -> None:
        """Clear the caches if the file was written since, or if they grow too large."""
        data_version = self.connection.execute("PRAGMA data_version").fetchone()[0]
        version = (data_version, self.connection.total_changes)
        if version != self._version or len(self.results) > _MAX_CACHED_RESULTS:
            self.totals.clear()
            self.results.clear()
            self._version = version


def _stop_clock(connection: Connection) -> None:
    connection.set_progress_handler(None, 0)
    if isinstance(connection, BudgetedConnection):
        connection.budget = None


class LocalRecord(ABC):
    """A record in SQLite. A search is interrupted after `time_limit` seconds."""

    schemas: tuple[str, ...] = ("main",)
    """The database schemas that hold resources and their index rows."""

    def __init__(self, path: Path, profile: Profile) -> None:
        self.path = path
        self.profile = profile
        self.time_limit: float | None = None

    @abstractmethod
    def session(self) -> ReadSession:
        """Return the session of the calling thread."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""

    @contextmanager
    def read_session(self) -> Iterator[ReadSession]:
        """Provide an up-to-date session. Error messages show neither SQL nor record text."""
        session = self.session()
        self._start_clock(session.connection)
        try:
            session.refresh()
            yield session
        except UnicodeEncodeError:
            raise FhirError("The search holds half a surrogate pair.") from None
        except sqlite3.OperationalError as error:
            raise self._search_error(str(error)) from None
        except sqlite3.DatabaseError:
            fix = "Load the data again into a new file."
            raise InputError(self.path, [": is damaged."], fix) from None
        finally:
            _stop_clock(session.connection)

    def _start_clock(self, connection: Connection) -> None:
        budget = current_budget()
        if isinstance(connection, BudgetedConnection):
            connection.budget = budget
        if self.time_limit is None and budget is None:
            return
        end = time.monotonic() + self.time_limit if self.time_limit is not None else math.inf

        def is_over() -> bool:
            return time.monotonic() > end or (budget is not None and budget.is_over)

        connection.set_progress_handler(is_over, _STEPS_BETWEEN_TIME_CHECKS)

    def _search_error(self, sqlite_message: str) -> FhirError:
        if "locked" in sqlite_message:
            message = "The record is being loaded just now. Ask again later."
            return FhirError(message, 503, "transient")
        if "interrupted" in sqlite_message:
            check_budget()
            limit = f"The search took longer than {self.time_limit:g} seconds."
            return FhirError(f"{limit} Name a patient, a code or a date.", 503, "too-costly")
        message = "The search cannot be run as it is. Ask for less at once."
        return FhirError(message, 400, "too-costly")

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """Return one resource, or None. Raises `FhirError` for a type FHIR does not have."""
        text = self.text(resource_type, resource_id)
        if text is None:
            return None
        resource = parse(text)
        assert isinstance(resource, dict)
        return resource

    def text(self, resource_type: str, resource_id: str) -> str | None:
        """Return the JSON text of one resource exactly as it was loaded, or None."""
        resource = self.stored(resource_type, resource_id)
        if resource is None:
            return None
        count_resource(resource.text)
        return resource.text

    def stored(self, resource_type: str, resource_id: str) -> StoredResource | None:
        """Return one resource with its version, or None; it does not count for a reply's room.

        Raises `FhirError` (404) for a type FHIR does not have.
        """
        if resource_type not in R4_RESOURCE_TYPES:
            hint = did_you_mean(resource_type, R4_RESOURCE_TYPES)
            raise FhirError(f"There is no such resource type.{hint}", 404, "not-supported")
        with self.read_session() as session:
            return ResourceReader(session.connection).find(resource_type, resource_id)

    def search(
        self,
        query: str,
        params: SearchParams | None = None,
        *,
        lenient: bool | None = None,
        profile: Profile | None = None,
    ) -> Page:
        """Return one page of a search.

        `lenient` ignores unknown parameters with a notice; None follows the profile, which is the
        record's own unless another is named.
        Raises `FhirError` with every mistake of the search.
        """
        url, url_params = parse_search_url(query)
        path = parse_path(url)
        all_params = [*compartment.search_within(path), *url_params, *flatten_params(params)]
        profile = profile or self.profile
        parsed = QueryParser(path.tail or path.type, profile, lenient).parse(all_params)
        with self.read_session() as session:
            return self.searcher(session, profile).run(parsed)

    def search_all(self, query: str, params: SearchParams | None = None) -> Iterator[Resource]:
        """Yield the matches of all pages, each resource once. Raises `FhirError`."""
        path, pairs = parse_search_url(query)
        pairs = [*pairs, *flatten_params(params)]
        if not any(name == "_count" for name, _ in pairs):
            pairs.append(("_count", "1000"))
        page = self.search(path, pairs)
        yield from page.resources
        while page.next is not None:
            page = self.search(page.next)
            yield from page.resources

    def everything(self, patient: str) -> Iterator[Resource]:
        """Yield the patient, all resources about them, and what those refer to.

        Raises `FhirError` (404) if there is no such patient.
        """
        page = self.everything_page(patient)
        yield from page.resources
        while page.next is not None:
            request = EverythingRequest(offset=page.offset + page.count)
            page = self.everything_page(patient, request)
            yield from page.resources

    def everything_page(
        self,
        owner_id: str,
        request: EverythingRequest | None = None,
        owner_type: str = "Patient",
    ) -> Page:
        """Return one page of `$everything` of a patient or an encounter. Raises `FhirError`."""
        request = request or EverythingRequest()
        owner = ReferenceTarget(owner_type, owner_id)
        with self.read_session() as session:
            searcher = self.searcher(session)
            return compartment.fetch_everything(session.connection, searcher, owner, request)

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """Return the number of resources of each type, in the whole record or of one patient."""
        with self.read_session() as session:
            return statistics.count_resources(session.connection, patient)

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """Return the codes of a type's resources, most frequent first."""
        with self.read_session() as session:
            return statistics.list_codes(session.connection, resource_type, patient)

    def searcher(self, session: ReadSession, profile: Profile | None = None) -> Searcher:
        """Return a searcher that uses the caches of a session."""
        return Searcher(
            session.connection,
            profile or self.profile,
            session.totals,
            session.results,
            self.schemas,
            self._read_later,
        )

    def _read_later(self, query: Query, numbers: Sequence[int]) -> Iterator[Sequence[Entry]]:
        """Yield matches as many at a time as the request may hold then, in any thread."""
        start = 0
        while start < len(numbers):
            part = numbers[start : start + CHUNK_LIMITS.resources]
            with self.read_session() as session:
                entries = self.searcher(session).entries(query, part)
            yield entries
            start += len(entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
