"""Writes on top of a record that stays unchanged: they are kept in memory and can be reset.

Every search finds them. Several overlays may use one file at the same time, such as one for each
task.
"""

import json
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection

from archqa.fhir.index import schema
from archqa.fhir.index.batch import index_batch_of
from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.index.loading import Loader
from archqa.fhir.index.sources import ParsedResource, invalid_resource_reason
from archqa.fhir.index.sql import first_column
from archqa.fhir.profile import Profile
from archqa.fhir.record import FhirError, Resource
from archqa.fhir.request_budget import BudgetedConnection
from archqa.fhir.store import LocalRecord, ReadSession, Store
from archqa.fhir.values import dates

_FIRST_NUMBER = 2**40
"""The overlay's numbers start here, far above those of the file."""


class Overlay(LocalRecord):
    """A store with additions in memory. Threads share it; one of them uses it at a time."""

    schemas = ("base", "main")

    def __init__(self, path: Path, profile: Profile) -> None:
        super().__init__(path, profile)
        self._lock = threading.RLock()
        self._session = ReadSession(_open_layers(path))
        self._loader = self._new_loader()

    @classmethod
    def over(cls, store: Store) -> "Overlay":
        """Return an empty overlay over a store."""
        return cls(store.path, store.profile)

    def create(self, resource: Resource, new_id: str | None = None) -> Resource:
        """Store a resource under a new id and return what was stored.

        Raises `FhirError` for an invalid resource.
        """
        members = dict(resource)
        resource_type = members.pop("resourceType", None)
        members.pop("id", None)
        meta = members.get("meta") or {}
        if not isinstance(meta, dict):
            raise FhirError("meta must be a JSON object.", 422)
        now = dates.format_instant(dates.utc_now_microseconds())
        members["meta"] = {
            **meta,
            "versionId": "1",
            "lastUpdated": now,
        }
        new_id = new_id or str(uuid.uuid4())
        stored = {
            "resourceType": resource_type,
            "id": new_id,
            **members,
        }
        self.put(json.dumps(stored, ensure_ascii=False), stored)
        return stored

    def put(self, text: str, resource: Resource) -> None:
        """Store a resource under its own id, which must be new.

        Raises `FhirError`: 422 for an invalid resource, 409 if the id exists.
        """
        reason = invalid_resource_reason(resource, text)
        if reason:
            raise FhirError(reason, 422)
        if self.text(resource["resourceType"], resource["id"]) is not None:
            raise FhirError(
                "There is a resource of this type and id already.", 409, "conflict"
            )
        with self.transaction():
            self._loader.insert_batch(
                index_batch_of([ParsedResource(text, resource, {})])
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep the additions of the block if it succeeds, discard them if it fails.

        A block within another is part of it.
        """
        connection = self._session.connection
        with self._lock:
            if connection.in_transaction:
                yield
                return
            connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                connection.execute("ROLLBACK")
                self._loader = (
                    self._new_loader()
                )  # The old one remembers what was rolled back.
                raise
            connection.execute("COMMIT")

    def added(self) -> list[Resource]:
        """Return the additions, in order."""
        with self.read_session() as session:
            sql = "SELECT n FROM main.resource ORDER BY n"
            numbers = first_column(session.connection, sql)
            stored = ResourceReader(session.connection).fetch(numbers)
            return [json.loads(resource.text) for resource in stored]

    def reset(self) -> None:
        """Discard the additions."""
        with self._lock:
            with self.transaction():
                for table in schema.TABLE_COLUMNS:
                    self._session.connection.execute(f"DELETE FROM main.{table}")
            self._loader = self._new_loader()

    def session(self) -> ReadSession:
        """Return the only session."""
        return self._session

    @contextmanager
    def read_session(self) -> Iterator[ReadSession]:
        """Provide the session, for one thread at a time."""
        with self._lock, super().read_session() as session:
            yield session

    def close(self) -> None:
        """Close the file; the additions are lost."""
        with self._lock:
            self._session.connection.close()

    def _new_loader(self) -> Loader:
        return Loader(self._session.connection, "main", _FIRST_NUMBER)


def _open_layers(path: Path) -> Connection:
    """Open a database in memory with the file attached as schema `base`.

    Raises `InputError` if the file is no record.
    """
    schema.open_connection(path, write=False).close()
    connection = sqlite3.connect(
        ":memory:",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=BudgetedConnection,
    )
    connection.execute("ATTACH ? AS base", (f"{path.resolve().as_uri()}?mode=ro",))
    schema.create_tables(connection)
    schema.create_indexes(connection)
    # Views of the rows in the file and in memory, in the temporary schema: SQLite looks there first.
    for table in schema.TABLE_COLUMNS:
        rows = f"SELECT * FROM base.{table} UNION ALL SELECT * FROM main.{table}"
        if table == "element":
            columns = "p, type, kind, path, max(longest) AS longest, max(used) AS used"
            rows = f"SELECT {columns} FROM ({rows}) GROUP BY p"
        connection.execute(f"CREATE TEMP VIEW {table} AS {rows}")
    return connection
