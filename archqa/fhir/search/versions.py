"""The version of a stored resource, and the history of a record.

A record keeps the last version of a resource, and so that is all of its history.
Source: hl7.org/fhir/R4/http.html#versions.
"""

import re
from dataclasses import dataclass
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.blobs import BlobReader
from archqa.fhir.request_budget import current_budget
from archqa.fhir.values.json_spans import parse

_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")


class ResourceVersion(NamedTuple):
    """A version of a resource: its id, when it was stored (UTC microseconds), and its JSON text."""

    type: str
    id: str
    version: str
    updated: int
    text: str

    @property
    def reference(self) -> str:
        """The reference to the resource, `Type/id`."""
        return f"{self.type}/{self.id}"

    @property
    def location(self) -> str:
        """The relative URL of this version."""
        return f"{self.reference}/_history/{self.version}"


@dataclass(frozen=True)
class HistoryRequest:
    """A request for a page of history: of one resource, of a type, or of the record (no `type`).

    `since` is the earliest moment of a version, and every version older than `until` counts, both
    in UTC microseconds.
    """

    type: str | None = None
    id: str | None = None
    since: int | None = None
    until: int | None = None
    count: int = 100
    offset: int = 0


class HistoryPage(NamedTuple):
    """A page of history, latest version first; `total` counts the versions on all pages."""

    versions: list[ResourceVersion]
    total: int
    has_next: bool


def fetch_version(
    connection: Connection, resource_type: str, resource_id: str
) -> ResourceVersion | None:
    """Return a resource with its version; None if there is none of that type and id."""
    where = "r.id = ? AND r.type = (SELECT k FROM type WHERE name = ?)"
    sql = f"{_SELECT} WHERE {where}"
    row = connection.execute(sql, (resource_id, resource_type)).fetchone()
    return None if row is None else _read(BlobReader(connection), row)


def fetch_history(connection: Connection, request: HistoryRequest) -> HistoryPage:
    """Return a page of history. It ends early where the reply of a server has no room."""
    where, args = _condition(request)
    (total,) = connection.execute(f"SELECT count(*) FROM resource r{where}", args).fetchone()
    # In the order of the table among versions of one moment: SQLite sorts a load that way at once.
    page = f"{where} ORDER BY r.updated DESC, r.n LIMIT ? OFFSET ?"
    numbers = connection.execute(
        f"SELECT r.n FROM resource r{page}", (*args, request.count, request.offset)
    ).fetchall()
    versions = _fetch(connection, [n for (n,) in numbers])
    return HistoryPage(versions, total, request.offset + len(versions) < total)


_SELECT = (
    "SELECT k.name, r.id, r.version, r.updated, r.d, r.body"
    " FROM resource r JOIN type k ON k.k = r.type"
)


def _condition(request: HistoryRequest) -> tuple[str, tuple[str | int, ...]]:
    conditions: dict[str, str | int | None] = {
        "r.type = (SELECT k FROM type WHERE name = ?)": request.type,
        "r.id = ?": request.id,
        "r.updated >= ?": request.since,
        "r.updated < ?": request.until,
    }
    requested = {sql: value for sql, value in conditions.items() if value is not None}
    where = f" WHERE {' AND '.join(requested)}" if requested else ""
    return where, tuple(requested.values())


def _fetch(connection: Connection, numbers: list[int]) -> list[ResourceVersion]:
    budget = current_budget()
    if budget is not None and numbers:
        budget.check_room()
    reader = BlobReader(connection)
    versions: list[ResourceVersion] = []
    for n in numbers:
        if budget is not None and not budget.has_room:
            break
        row = connection.execute(f"{_SELECT} WHERE r.n = ?", (n,)).fetchone()
        version = _read(reader, row)
        versions.append(version)
        if budget is not None:
            budget.spend_resource(version.text)
    return versions


def _read(reader: BlobReader, row: tuple[str, str, int, int, int, bytes]) -> ResourceVersion:
    resource_type, resource_id, number, updated, d, blob = row
    text = reader.decompress(d, blob)
    version = _own_version(text) or str(number)
    return ResourceVersion(resource_type, resource_id, version, updated, text)


def _own_version(text: str) -> str:
    """Return the `meta.versionId` of a resource; empty if it has none, or none that is an id."""
    if '"versionId"' not in text:
        return ""
    meta = parse(text).get("meta")
    version = meta.get("versionId") if isinstance(meta, dict) else None
    return version if isinstance(version, str) and _ID.fullmatch(version) else ""
