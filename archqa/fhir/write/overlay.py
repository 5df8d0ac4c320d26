"""Writes above a record that stays as it is: what is added lies in memory, is found by every search, and can be reset.

Several overlays may lie above one file at the same time, one for each task.
"""

import json
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archqa.fhir.index import schema
from archqa.fhir.index.batch import index_batch_of
from archqa.fhir.index.loading import Loader
from archqa.fhir.index.resource_reader import ParsedResource, invalid_resource_reason
from archqa.fhir.local_record import LocalRecord, ReadSession
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.record import Resource
from archqa.fhir.store import Store
from archqa.fhir.values import dates

_FLOOR = 2**40
"""Numbers given here never meet those of the file."""


class Overlay(LocalRecord):
    """A store with additions in memory. Safe to use from several threads, one at a time."""

    schemas = ("base", "main")

    def __init__(self, path: Path, ways: Profile) -> None:
        super().__init__(path, ways)
        self._lock = threading.RLock()
        schema.open_connection(
            path, write=False
        ).close()  # Raises what is to be said about a file that is no record.
        connection = sqlite3.connect(
            ":memory:", uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute("ATTACH ? AS base", (f"{path.resolve().as_uri()}?mode=ro",))
        schema.create_tables(connection)
        schema.create_indexes(connection)
        _lay_over(connection)
        self._session = ReadSession(connection)
        self._loader = Loader(connection, "main", _FLOOR)

    @classmethod
    def over(cls, store: Store) -> "Overlay":
        """An empty overlay over a store."""
        return cls(store.path, store.profile)

    def create(self, resource: Resource, new_id: str | None = None) -> Resource:
        """Store a resource under a new id; what was stored. Raises `FhirError` if it is none."""
        new_id, now = (
            new_id or str(uuid.uuid4()),
            dates.format_instant(dates.utc_now_microseconds()),
        )
        given = {
            name: value for name, value in resource.items() if name not in {"resourceType", "id"}
        }
        meta = {**(given.get("meta") or {}), "versionId": "1", "lastUpdated": now}
        stored = {"resourceType": resource.get("resourceType"), "id": new_id, **given, "meta": meta}
        self.put(json.dumps(stored, ensure_ascii=False), stored)
        return stored

    def put(self, text: str, resource: Resource) -> None:
        """Store a resource under its own id, which must be new. Raises `FhirError`, 409 if there is one already."""
        wrong = invalid_resource_reason(resource, text)
        if wrong:
            raise FhirError(wrong, 422)
        if self.text(resource["resourceType"], resource["id"]) is not None:
            raise FhirError("There is a resource of this type and id already.", 409, "conflict")
        with self._lock, self._transaction():
            self._loader.put(index_batch_of([ParsedResource(text, resource, {})]))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is added within is kept if it ends well, else forgotten."""
        with self._lock:
            try:
                with self._transaction():
                    yield
            except BaseException:
                self._loader = Loader(
                    self._session.connection, "main", _FLOOR
                )  # It knew what is gone.
                raise

    def added(self) -> list[Resource]:
        """What was added, in order."""
        with self.reading() as session:
            numbers = [
                n for (n,) in session.connection.execute("SELECT n FROM main.resource ORDER BY n")
            ]
            return [json.loads(text) for _, _, text in self._searcher(session).resources(numbers)]

    def reset(self) -> None:
        """Forget what was added."""
        with self._lock:
            with self._transaction():
                for table in schema.TABLE_COLUMNS:
                    self._session.connection.execute(f"DELETE FROM main.{table}")
            self._loader = Loader(self._session.connection, "main", _FLOOR)

    def session(self) -> ReadSession:
        """The only session."""
        return self._session

    @contextmanager
    def reading(self) -> Iterator[ReadSession]:
        """The session, while nobody else uses it."""
        with self._lock, super().reading() as session:
            yield session

    def close(self) -> None:
        """Let go of the file; what was added is lost."""
        with self._lock:
            self._session.connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction, or a part of the one that is open."""
        connection = self._session.connection
        if connection.in_transaction:
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def _lay_over(connection: sqlite3.Connection) -> None:
    """Views in the temporary schema, which is looked up first: each table is the file's and memory's together."""
    for name in schema.TABLE_COLUMNS:
        both = f"SELECT * FROM base.{name} UNION ALL SELECT * FROM main.{name}"
        if name == "element":
            both = f"SELECT p, type, kind, path, max(longest) AS longest, max(used) AS used FROM ({both}) GROUP BY p"
        connection.execute(f"CREATE TEMP VIEW {name} AS {both}")
