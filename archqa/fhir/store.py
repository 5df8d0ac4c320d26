"""A record in one SQLite file: loaded in a minute, searched in milliseconds, read by many threads.

    store = Store.open("record.db")
    store.search("Observation?patient=123&code=2160-0&_sort=-date").resources

What loads and what searches is imported where it is needed: a read by id needs neither.
"""

import math
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from archqa.errors import InputError
from archqa.fhir.index import schema
from archqa.fhir.index.blobs import ResourceReader, StoredResource
from archqa.fhir.index.sql import first_cell, first_column
from archqa.fhir.profile import ARCHQA, Profile, get_profile
from archqa.fhir.record import (
    CodeCount,
    Entry,
    FhirError,
    Page,
    Resource,
    SearchParams,
    all_pages,
)
from archqa.fhir.request_budget import (
    CHUNK_LIMITS,
    BudgetedConnection,
    check_budget,
    count_resource,
    current_budget,
)
from archqa.fhir.values.json_text import parse
from archqa.fhir.values.references import ReferenceTarget, parse_path
from archqa.fhir.values.resource_types import check_resource_type
from archqa.fhir.values.urls import parse_search_url
from archqa.safety.arguments import as_path

if TYPE_CHECKING:
    from archqa.fhir.index.loading import LoadProgress, LoadReport
    from archqa.fhir.search.everything import EverythingRequest
    from archqa.fhir.search.query import Query
    from archqa.fhir.search.searcher import ResultKey, Searcher
    from archqa.fhir.search.value_clauses import SqlClause

_STEPS_BETWEEN_TIME_CHECKS = 20_000
"""Instructions of SQLite's virtual machine between two checks of the time limit: about 1 ms."""

_MAX_CACHED_RESULTS = 128
"""Results that a session caches: at most 400 kB each, mostly far less."""


@dataclass(eq=False)
class ReadSession:
    """One connection, with caches of what it has read."""

    connection: Connection
    totals: "dict[SqlClause, int]" = field(default_factory=dict)
    results: "dict[ResultKey, array[int] | None]" = field(default_factory=dict)
    _version: tuple[int, int] = (-1, -1)

    def refresh(self) -> None:
        """Clear the caches if the file was written since, or if they grow too large."""
        data_version = first_cell(self.connection, "PRAGMA data_version")
        version = (data_version, self.connection.total_changes)
        if version != self._version or len(self.results) > _MAX_CACHED_RESULTS:
            self.totals.clear()
            self.results.clear()
            self._version = version


class LocalRecord(ABC):
    """A record in SQLite, which may have writes on top (`Overlay`).

    A search is interrupted after `time_limit` seconds.
    """

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
        connection = session.connection
        budget = current_budget()
        limit = math.inf if self.time_limit is None else self.time_limit
        end = time.monotonic() + limit

        def is_over() -> bool:
            return time.monotonic() > end or (budget is not None and budget.is_over)

        if isinstance(connection, BudgetedConnection):
            connection.budget = budget
        if limit < math.inf or budget is not None:
            connection.set_progress_handler(is_over, _STEPS_BETWEEN_TIME_CHECKS)
        try:
            session.refresh()
            yield session
        except UnicodeEncodeError:
            raise FhirError("The search holds half a surrogate pair.") from None
        except sqlite3.OperationalError as error:
            raise self._search_error(str(error)) from None
        except sqlite3.DatabaseError:
            raise InputError(
                self.path, [": is damaged."], "Load the data again into a new file."
            ) from None
        finally:
            connection.set_progress_handler(None, 0)
            if isinstance(connection, BudgetedConnection):
                connection.budget = None

    def _search_error(self, sqlite_message: str) -> FhirError:
        if "locked" in sqlite_message:
            message = "The record is being loaded just now. Ask again later."
            return FhirError(message, 503, "transient")
        if "interrupted" in sqlite_message:
            check_budget()
            limit = f"The search took longer than {self.time_limit:g} seconds."
            return FhirError(
                f"{limit} Name a patient, a code or a date.", 503, "too-costly"
            )
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
        check_resource_type(resource_type)
        with self.read_session() as session:
            return ResourceReader(session.connection).find(resource_type, resource_id)

    def search(
        self,
        query: str,
        params: SearchParams | None = None,
        *,
        lenient: bool | None = None,
    ) -> Page:
        """Return one page of a search.

        `lenient` ignores unknown parameters with a notice; None follows the record's profile.
        Raises `FhirError` with every mistake of the search.
        """
        from archqa.fhir.search.compartments import search_within
        from archqa.fhir.search.query_parser import QueryParser

        url, pairs = parse_search_url(query, params)
        path = parse_path(url)
        all_params = [*search_within(path), *pairs]
        parser = QueryParser(path.tail or path.type, self.profile, lenient)
        parsed = parser.parse(all_params)
        with self.read_session() as session:
            return self.searcher(session).run(parsed)

    def search_all(
        self, query: str, params: SearchParams | None = None
    ) -> Iterator[Resource]:
        """Yield the matches of all pages, each resource once. Raises `FhirError`."""
        path, pairs = parse_search_url(query, params)
        if not any(name == "_count" for name, _ in pairs):
            pairs.append(("_count", "1000"))
        for page in all_pages(self, self.search(path, pairs)):
            yield from page.resources

    def everything(self, patient: str) -> Iterator[Resource]:
        """Yield the patient, all resources about them, and what those refer to.

        Raises `FhirError` (404) if there is no such patient.
        """
        from archqa.fhir.search.everything import EverythingRequest

        page = self.everything_page(patient)
        yield from page.resources
        while page.next is not None:
            request = EverythingRequest(offset=page.offset + page.count)
            page = self.everything_page(patient, request)
            yield from page.resources

    def everything_page(
        self,
        owner_id: str,
        request: "EverythingRequest | None" = None,
        owner_type: str = "Patient",
    ) -> Page:
        """Return one page of `$everything` of a patient or an encounter. Raises `FhirError`."""
        from archqa.fhir.search.everything import EverythingRequest, fetch_everything

        request = request or EverythingRequest()
        owner = ReferenceTarget(owner_type, owner_id)
        with self.read_session() as session:
            return fetch_everything(
                session.connection,
                self.searcher(session),
                owner,
                request,
            )

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """Return the number of resources of each type, in the whole record or of one patient."""
        from archqa.fhir.search.statistics import count_resources

        with self.read_session() as session:
            return count_resources(session.connection, patient)

    def malformed(self, resource_type: str, patient: str) -> list[str]:
        """Return `Type/id` of the malformed resources of a type that may be about a patient."""
        prefix = f"{schema.MALFORMED}{resource_type}/"
        sql = (
            "SELECT substr(name, ?) FROM setting WHERE substr(name, 1, ?) = ?"
            " AND value IN ('', ?) ORDER BY name"
        )
        args = (len(schema.MALFORMED) + 1, len(prefix), prefix, patient)
        with self.read_session() as session:
            return first_column(session.connection, sql, args)

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """Return the codes of a type's resources, most frequent first."""
        from archqa.fhir.search.statistics import list_codes

        with self.read_session() as session:
            return list_codes(session.connection, resource_type, patient)

    def searcher(self, session: ReadSession) -> "Searcher":
        """Return a searcher that uses the caches of a session."""
        from archqa.fhir.search.searcher import Searcher

        return Searcher(
            session.connection,
            self.profile,
            session.totals,
            session.results,
            self.schemas,
            self._read_later,
        )

    def _read_later(
        self, query: "Query", numbers: Sequence[int]
    ) -> Iterator[Sequence[Entry]]:
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


class Store(LocalRecord):
    """A record in one SQLite file. Every thread reads through a connection of its own."""

    def __init__(self, path: Path, profile: Profile) -> None:
        super().__init__(path, profile)
        self._local = threading.local()
        # Weak references: when a thread ends, its session is freed and its connection closes.
        self._sessions: WeakSet[ReadSession] = WeakSet()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | Path,
        profile: str | Profile = ARCHQA,
        *,
        create: bool = False,
    ) -> "Store":
        """Open a record; `create` makes an empty one if there is none.

        Raises `InputError` if there is no record, `CallerError` if there is no such profile.
        """
        store = cls(as_path(path, "The record"), get_profile(profile))
        if create:
            schema.open_connection(store.path, write=True).close()
        store.session()
        return store

    def as_profile(self, profile: str | Profile) -> "Store":
        """Return the same record with another profile. Raises `CallerError` if there is none."""
        return Store(self.path, get_profile(profile))

    def load(
        self,
        paths: Iterable[str | Path],
        *,
        strict: bool = False,
        progress: "Callable[[LoadProgress], None] | None" = None,
    ) -> "LoadReport":
        """Load NDJSON, Bundles, resources (also gzipped) and folders of them: all, or nothing.

        Raises `InputError` for absent files, wrong checksums and, if `strict`, bad lines.
        """
        from archqa.fhir.index.loading import (
            load,
        )  # Whoever reads a record needs none of it.

        connection = schema.open_connection(self.path, write=True)
        try:
            report = load(
                connection,
                paths,
                strict=strict,
                progress=progress,
            )
            if not self.path.exists():
                raise InputError(
                    self.path, [": was removed while it was written."], "Load again."
                )
            return report
        except sqlite3.OperationalError as error:
            raise InputError(
                self.path,
                [f": cannot be written ({error})."],
                "Nothing was loaded. Is there room on the disk, or another load under way?",
            ) from None
        finally:
            connection.close()

    @classmethod
    @contextmanager
    def open_to_load(cls, path: Path) -> "Iterator[Store]":
        """Open a record, or make one; a new one is removed if nothing was loaded into it."""
        is_new = not path.exists()
        with cls.open(path, create=True) as store:
            try:
                yield store
            except BaseException:
                if is_new:
                    schema.remove_if_empty(path)
                raise

    def session(self) -> ReadSession:
        """Return the session of the calling thread."""
        session: ReadSession | None = getattr(self._local, "session", None)
        if session is None:
            session = ReadSession(schema.open_connection(self.path, write=False))
            with self._lock:
                self._sessions.add(session)
            self._local.session = session
        return session

    def close(self) -> None:
        """Close every connection. A later search opens a new one."""
        with self._lock:
            for session in self._sessions:
                session.connection.close()
            self._sessions.clear()
            self._local = threading.local()
