"""Reading a record that lies in SQLite: what `Store` and `Overlay` have in common."""

import sqlite3
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from archqa.errors import InputError
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.record import CodeCount, Page, Resource, SearchParams
from archqa.fhir.search import compartment, vocabulary
from archqa.fhir.search.comparisons import SqlClause
from archqa.fhir.search.execution import ResultKey, Searcher
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.values.json_spans import parse
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import flatten_params, parse_search_url

_STEPS = 20_000
"""Steps of SQLite's machine between two looks at the clock, about a millisecond."""


_RESULTS = 128
"""Results that a session keeps: at most 400 kB each, mostly far less."""


class ReadSession:
    """One connection, and what is remembered about what it reads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.totals: dict[SqlClause, int] = {}
        self.results: dict[ResultKey, array[int] | None] = {}
        self._state = (-1, -1)

    def refresh(self) -> None:
        """Forget what was found if somebody has written since, or if it grows too large."""
        state = (
            self.connection.execute("PRAGMA data_version").fetchone()[0],
            self.connection.total_changes,
        )
        if state != self._state or len(self.results) > _RESULTS:
            self.totals.clear()
            self.results.clear()
            self._state = state


class LocalRecord(ABC):
    """A record in SQLite. Searches that take longer than `time_limit` seconds are given up."""

    schemas: tuple[str, ...] = ("main",)
    """Where resources and their index rows lie."""

    def __init__(self, path: Path, ways: Profile) -> None:
        self.path = path
        self.profile = ways
        self.time_limit: float | None = None

    @abstractmethod
    def session(self) -> ReadSession:
        """The session of the calling thread."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""

    @contextmanager
    def reading(self) -> Iterator[ReadSession]:
        """A session, up to date, with its faults put into words that show neither SQL nor record text."""
        session = self.session()
        if self.time_limit is not None:
            ends = time.monotonic() + self.time_limit
            session.connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        try:
            session.refresh()
            yield session
        except UnicodeEncodeError:
            raise FhirError("The search holds half a surrogate pair.") from None
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise FhirError(
                    "The record is being loaded just now. Ask again later.", 503, "transient"
                ) from None
            if "interrupted" in str(error):
                text = f"The search took longer than {self.time_limit:g} seconds. Name a patient, a code or a date."
                raise FhirError(text, 503, "too-costly") from None
            raise FhirError(
                "The search cannot be run as it is. Ask for less at once.", 400, "too-costly"
            ) from None
        except sqlite3.DatabaseError:
            raise InputError(
                self.path, [": is damaged."], "Load the data again into a new file."
            ) from None
        finally:
            session.connection.set_progress_handler(None, 0)

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """One resource, or None. Raises `FhirError` for a type FHIR does not have."""
        text = self.text(resource_type, resource_id)
        if text is None:
            return None
        found = parse(text)
        assert isinstance(found, dict)
        return found

    def text(self, resource_type: str, resource_id: str) -> str | None:
        """The JSON text of one resource exactly as it was loaded, or None."""
        if resource_type not in R4_RESOURCE_TYPES:
            raise FhirError(
                f"There is no such resource type.{did_you_mean(resource_type, R4_RESOURCE_TYPES)}",
                404,
                "not-supported",
            )
        find = "SELECT n FROM resource WHERE id = ? AND type = (SELECT k FROM type WHERE name = ?)"
        with self.reading() as session:
            row = session.connection.execute(find, (resource_id, resource_type)).fetchone()
            return self._searcher(session).resources([row[0]])[0][2] if row else None

    def search(
        self, query: str, params: SearchParams | None = None, *, lenient: bool | None = None
    ) -> Page:
        """One page of a search. `lenient` ignores unknown parameters and says so; None: as the profile has it.

        Raises `FhirError` with every mistake of the search.
        """
        path, pairs = parse_search_url(query)
        resource_type, extra = compartment.parse_compartment_path(path)
        wanted = QueryParser(resource_type, self.profile, lenient).read(
            [*extra, *pairs, *flatten_params(params)]
        )
        with self.reading() as session:
            return self._searcher(session).run(wanted)

    def search_all(self, query: str, params: SearchParams | None = None) -> Iterator[Resource]:
        """The matches of all pages, each resource once. Raises `FhirError`."""
        path, pairs = parse_search_url(query)
        pairs = [*pairs, *flatten_params(params)]
        if not any(name == "_count" for name, _ in pairs):
            pairs.append(("_count", "1000"))
        page: Page | None = self.search(path, pairs)
        while page is not None:
            yield from page.resources
            page = self.search(page.next) if page.next else None

    def everything(self, patient: str) -> Iterator[Resource]:
        """The patient, all that is theirs, and what that refers to. Raises `FhirError` (404): no such patient."""
        page = self.everything_page(patient)
        while page.next is not None:
            yield from page.resources
            page = self.everything_page(
                patient, compartment.EverythingRequest(offset=page.offset + page.count)
            )
        yield from page.resources

    def everything_page(
        self, patient: str, wanted: compartment.EverythingRequest | None = None
    ) -> Page:
        """One page of `Patient/{id}/$everything`. Raises `FhirError` (404)."""
        with self.reading() as session:
            searcher = self._searcher(session)
            return compartment.fetch_everything(
                session.connection, searcher, patient, wanted or compartment.EverythingRequest()
            )

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """How many resources of each type there are, in all or of one patient."""
        with self.reading() as session:
            return vocabulary.count_resources(session.connection, patient)

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """The codes in resources of the type, in all or of one patient, most frequent first."""
        with self.reading() as session:
            return vocabulary.list_codes(session.connection, resource_type, patient)

    def _searcher(self, session: ReadSession) -> Searcher:
        return Searcher(
            session.connection, self.profile, session.totals, session.results, self.schemas
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
