"""Read all resources of a record, type by type, in the order in which they were loaded.

Each batch is a read of its own: other threads search and write between two of them.
"""

from collections.abc import Iterator
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.search.shared_resources import owner_elements

_BATCH_SIZE = 500
"""Resources that are in memory at once."""


class WholeResource(NamedTuple):
    """A resource as it is stored.

    `updated` is in UTC microseconds; `patients` are the ids of those it is about, itself if it is
    one, if they were asked for.
    """

    id: str
    text: str
    updated: int
    patients: frozenset[str]


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
    record: LocalRecord, resource_type: str, state: RecordState, *, with_patients: bool = False
) -> Iterator[list[WholeResource]]:
    """Yield the resources of a type in batches; those added after `state` are left out."""
    last = -1
    while True:
        with record.read_session() as session:
            connection = session.connection
            rows = _next_rows(connection, resource_type, last, state.last_number)
            if not rows:
                return
            numbers = [n for n, _ in rows]
            patients = _patients_of(connection, numbers, resource_type) if with_patients else {}
            stored = record.searcher(session).fetch(numbers)
        batch = []
        for (n, updated), resource in zip(rows, stored, strict=True):
            owners = frozenset(patients.get(n, ()))
            if resource_type == "Patient":
                owners |= {resource.id}
            batch.append(WholeResource(resource.id, resource.text, updated, owners))
        yield batch
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


def _next_rows(
    connection: Connection, resource_type: str, last: int, end: int
) -> list[tuple[int, int]]:
    sql = (
        "SELECT n, updated FROM resource WHERE type = (SELECT k FROM type WHERE name = ?)"
        " AND n > ? AND n <= ? ORDER BY n LIMIT ?"
    )
    return connection.execute(sql, (resource_type, last, end, _BATCH_SIZE)).fetchall()


def _patients_of(
    connection: Connection, numbers: list[int], resource_type: str
) -> dict[int, set[str]]:
    elements = owner_elements(connection)
    of_type = [p for p, owner_type in elements.items() if owner_type == resource_type]
    sql = (
        "SELECT x.n, t.id FROM reference x JOIN target t ON t.t = x.t"
        f" WHERE x.n IN ({sql_number_list(numbers)}) AND x.p IN ({sql_number_list(of_type)})"
        " AND t.type IN ('Patient', '')"
    )
    patients: dict[int, set[str]] = {}
    for n, patient in connection.execute(sql):
        patients.setdefault(n, set()).add(patient)
    return patients
