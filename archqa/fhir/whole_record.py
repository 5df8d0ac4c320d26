"""Read all resources of a record, type by type, in the order in which they were loaded.

Each batch is a read of its own: other threads search and write between two of them.
"""

from collections.abc import Iterator
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.local_record import LocalRecord

_BATCH_SIZE = 500
"""Resources that are in memory at once."""


class WholeResource(NamedTuple):
    """A resource's id, and its text as it is stored."""

    id: str
    text: str


class RecordState(NamedTuple):
    """What a record held at one moment: it is the same record as long as the versions are equal."""

    last_number: int
    versions: tuple[int, ...]


def state_of(record: LocalRecord) -> RecordState:
    """Return the state of a record now, as the calling thread sees it."""
    with record.read_session() as session:
        connection = session.connection
        (last,) = connection.execute("SELECT ifnull(max(n), 0) FROM resource").fetchone()
        return RecordState(int(last), _versions(connection))


def read_type(
    record: LocalRecord, resource_type: str, state: RecordState
) -> Iterator[list[WholeResource]]:
    """Yield the resources of a type in batches; those added after `state` are left out."""
    last = -1
    while True:
        with record.read_session() as session:
            connection = session.connection
            numbers = _next_numbers(connection, resource_type, last, state.last_number)
            if not numbers:
                return
            stored = ResourceReader(connection).fetch(numbers)
        yield [WholeResource(resource.id, resource.text) for resource in stored]
        last = numbers[-1]


def is_unchanged(record: LocalRecord, state: RecordState) -> bool:
    """Whether nobody else wrote the record's file since `state`; the same thread must ask."""
    with record.read_session() as session:
        return _versions(session.connection) == state.versions


def _versions(connection: Connection) -> tuple[int, ...]:
    """Return the version of each file behind a connection."""
    names = [name for _, name, file in connection.execute("PRAGMA database_list") if file]
    versions = []
    for name in names:
        versions.append(connection.execute(f"PRAGMA {name}.data_version").fetchone()[0])
    return tuple(versions)


def _next_numbers(connection: Connection, resource_type: str, last: int, end: int) -> list[int]:
    sql = (
        "SELECT n FROM resource WHERE type = (SELECT k FROM type WHERE name = ?)"
        " AND n > ? AND n <= ? ORDER BY n LIMIT ?"
    )
    rows = connection.execute(sql, (resource_type, last, end, _BATCH_SIZE))
    return [n for (n,) in rows]
