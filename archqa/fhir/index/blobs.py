"""The JSON text of resources: compressed one by one with a dictionary of their neighbours, read back.

A resource of about 1 kB takes about 150 bytes, and is read back in about 6 µs, exactly as it was.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.sql import first_cell, sql_number_list
from archqa.fhir.record import member_of
from archqa.fhir.request_budget import check_budget, current_budget
from archqa.fhir.values.json_text import parse

_WINDOW_BITS = -13
"""Raw deflate with a window of 8 KiB."""

_DICTIONARY_SIZE = 2**13
"""Bytes of a dictionary: the size of the window."""

_MIN_TEXTS_FOR_DICTIONARY = 200
_DICTIONARY_SAMPLES = 16

_LEVEL = 3
_MEMORY_LEVEL = 6

_FETCHED_AT_ONCE = 500
"""Resources that are in memory while they are still compressed."""

_VERSION_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")


class CompressedBlobs(NamedTuple):
    """Texts compressed with one dictionary (empty if there were too few texts)."""

    dictionary: bytes
    blobs: list[bytes]


def compress_blobs(texts: Sequence[bytes]) -> CompressedBlobs:
    """Compress texts that were loaded together."""
    dictionary = b""
    if len(texts) >= _MIN_TEXTS_FOR_DICTIONARY:
        step = len(texts) // _DICTIONARY_SAMPLES
        dictionary = b"".join(texts[::step])[-_DICTIONARY_SIZE:]
    prototype = zlib.compressobj(
        _LEVEL,
        zlib.DEFLATED,
        _WINDOW_BITS,
        _MEMORY_LEVEL,
        zlib.Z_DEFAULT_STRATEGY,
        dictionary,
    )
    blobs = []
    for text in texts:
        compressor = prototype.copy()
        blobs.append(compressor.compress(text) + compressor.flush())
    return CompressedBlobs(dictionary, blobs)


def decompress_blob(dictionary: bytes, blob: bytes) -> str:
    """Return the text, exactly as it was."""
    return zlib.decompressobj(_WINDOW_BITS, zdict=dictionary).decompress(blob).decode()


class BlobReader:
    """Decompress the texts of a record. Dictionaries have numbers; 0 is the empty one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dictionaries: dict[int, bytes] = {0: b""}

    def decompress(self, d: int, blob: bytes) -> str:
        """Return the text of a blob that was compressed with dictionary `d`."""
        if d not in self._dictionaries:
            sql = "SELECT content FROM dictionary WHERE d = ?"
            self._dictionaries[d] = first_cell(self._connection, sql, (d,))
        return decompress_blob(self._dictionaries[d], blob)


class StoredResource(NamedTuple):
    """A resource as it is stored: its JSON text, and when it was stored (UTC microseconds).

    `replacements` counts from 1 how often the record was given the resource.
    """

    type: str
    id: str
    text: str
    replacements: int
    updated: int

    @property
    def version(self) -> str:
        """The `meta.versionId` of the resource; the record's own number if it has no usable one."""
        if '"versionId"' in self.text:
            version = member_of(parse(self.text).get("meta"), "versionId")
            if isinstance(version, str) and _VERSION_ID.fullmatch(version):
                return version
        return str(self.replacements)

    @property
    def location(self) -> str:
        """The relative URL of this version."""
        return f"{self.type}/{self.id}/_history/{self.version}"


class ResourceReader:
    """Read resources through one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._blobs = BlobReader(connection)

    def fetch(self, numbers: Iterable[int]) -> list[StoredResource]:
        """Return the resources with these numbers, in this order, for a reply.

        A request gets as many as its reply has room for, and the last of them may exceed it.
        Raises `FhirError` if there is no room at all.
        """
        ordered = list(numbers)
        resources: list[StoredResource] = []
        budget = current_budget()
        if budget is not None and ordered:
            budget.check_room()
        for resource in self.read(ordered):
            if budget is not None:
                if not budget.has_room:
                    break
                budget.spend_resource(resource.text)
            resources.append(resource)
        return resources

    def read(self, numbers: Sequence[int]) -> Iterator[StoredResource]:
        """Yield the resources with these numbers, in this order, each decompressed when needed."""
        for start in range(0, len(numbers), _FETCHED_AT_ONCE):
            check_budget()
            part = numbers[start : start + _FETCHED_AT_ONCE]
            rows = self._connection.execute(
                f"{_SELECT} WHERE r.n IN ({sql_number_list(part)})"
            )
            by_number = {row[0]: row for row in rows}
            for n in part:
                yield self._resource(by_number[n])

    def find(self, resource_type: str, resource_id: str) -> StoredResource | None:
        """Return the resource of a type and id, None if there is none."""
        row = self._connection.execute(
            f"{_SELECT} WHERE r.id = ? AND r.type = (SELECT k FROM type WHERE name = ?)",
            (resource_id, resource_type),
        ).fetchone()
        return None if row is None else self._resource(row)

    def _resource(
        self, row: tuple[int, str, str, int, int, int, bytes]
    ) -> StoredResource:
        _, resource_type, resource_id, replacements, updated, d, blob = row
        return StoredResource(
            resource_type,
            resource_id,
            self._blobs.decompress(d, blob),
            replacements,
            updated,
        )


_SELECT = (
    "SELECT r.n, k.name, r.id, r.version, r.updated, r.d, r.body"
    " FROM resource r JOIN type k ON k.k = r.type"
)
