"""The version of a stored resource: a record keeps the last one.

Source: hl7.org/fhir/R4/http.html#versions.
"""

import re
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.blobs import BlobReader
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


def fetch_version(
    connection: Connection, resource_type: str, resource_id: str
) -> ResourceVersion | None:
    """Return a resource with its version; None if there is none of that type and id."""
    where = "r.id = ? AND r.type = (SELECT k FROM type WHERE name = ?)"
    sql = f"{_SELECT} WHERE {where}"
    row = connection.execute(sql, (resource_id, resource_type)).fetchone()
    return None if row is None else _read(BlobReader(connection), row)


_SELECT = (
    "SELECT k.name, r.id, r.version, r.updated, r.d, r.body"
    " FROM resource r JOIN type k ON k.k = r.type"
)


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
