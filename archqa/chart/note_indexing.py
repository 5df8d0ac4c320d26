"""Keeps the note index of a record's file up to date.

A batch of notes is one transaction: if the command is stopped, the next one goes on after the last
whole batch. The index is in the record's own file, so that it is as private as the record.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, TypeVar

from archqa.chart.note_tables import create_note_tables, drop_note_tables, has_note_tables
from archqa.chart.note_writer import Encode, NoteWriter, ReadDocument, SourceVersions
from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.fhir.index.blobs import BlobReader
from archqa.fhir.index.schema import open_connection
from archqa.notes.documents import (
    DOCUMENT_TYPES,
    Document,
    UnreadDocument,
    binary_ids,
    read_document,
)

Result = TypeVar("Result")

DOCUMENTS_OF_A_BATCH = 100
"""Documents of one transaction."""

_TYPES = ", ".join(f"'{name}'" for name in DOCUMENT_TYPES)
_ALL = f"SELECT r.n FROM resource r JOIN type t ON t.k = r.type WHERE t.name IN ({_TYPES})"
_IS_CURRENT = """
    EXISTS (SELECT 1 FROM note_document d WHERE d.n = r.n)
    AND NOT EXISTS (
        SELECT 1 FROM note_source s WHERE s.document = r.n AND s.version IS NOT (
            SELECT q.version FROM resource q JOIN type k ON k.k = q.type
            WHERE q.id = substr(s.name, instr(s.name, '/') + 1)
            AND k.name = substr(s.name, 1, instr(s.name, '/') - 1)
        )
    )
"""
OUTDATED = f"{_ALL} AND NOT ({_IS_CURRENT})"
"""SQL of the documents that the index lacks, or that were read from other versions."""

_PATIENT = "coalesce((SELECT patient FROM reference WHERE n = r.n LIMIT 1), 0)"
_STORED = f"""
    SELECT r.n, r.version, t.name || '/' || r.id, r.d, r.body, {_PATIENT} AS patient
    FROM resource r JOIN type t ON t.k = r.type WHERE r.n IN (%s) ORDER BY patient, r.n
"""


class NoteIndexReport(FrozenModel):
    """What was indexed.

    `documents` are resources that may have text, `notes` those that have, with their `sentences`;
    `unread` have a text that cannot be read.
    """

    documents: int = 0
    notes: int = 0
    sentences: int = 0
    unread: int = 0


class NoteIndexProgress(FrozenModel):
    """How many of the documents that are to be indexed are done."""

    documents: int
    total: int


class _StoredDocument(NamedTuple):
    n: int
    version: int
    name: str
    d: int
    body: bytes
    patient: int


def index_notes(
    path: Path,
    encode: Encode,
    progress: Callable[[NoteIndexProgress], None] = lambda _: None,
) -> NoteIndexReport:
    """Index the notes of a record that its index lacks.

    `encode` gives the vectors of sentences. Raises `InputError` if there is no record, or its file
    cannot be written.
    """
    if not path.is_file():
        raise InputError(path, [": no such record."], "Make one with: archqa fhir load")
    connection = open_connection(path, write=True)
    try:
        return _index(connection, encode, progress)
    except sqlite3.OperationalError as error:
        fix = "Is there room on the disk, or another load under way?"
        raise InputError(path, [f": its notes cannot be indexed ({error})."], fix) from None
    finally:
        connection.close()


def remove_note_index(path: Path) -> None:
    """Remove the index of the notes of a record. Raises `InputError` if there is no record."""
    open_connection(path, write=False).close()
    connection = open_connection(path, write=True)
    try:
        _in_transaction(connection, lambda: drop_note_tables(connection))
    finally:
        connection.close()


def _outdated(connection: Connection) -> list[int]:
    """Return the numbers of the documents of a record that its index lacks, by patients."""
    source = OUTDATED if has_note_tables(connection) else _ALL
    numbers = [n for (n,) in connection.execute(source)]
    patients = {}
    for n in numbers:
        sql = "SELECT patient FROM reference WHERE n = ? LIMIT 1"
        patients[n] = connection.execute(sql, (n,)).fetchone() or (0,)
    return sorted(numbers, key=lambda n: (patients[n], n))


def _index(
    connection: Connection, encode: Encode, progress: Callable[[NoteIndexProgress], None]
) -> NoteIndexReport:
    report = NoteIndexReport()
    numbers = _outdated(connection)
    if numbers:
        _in_transaction(connection, lambda: create_note_tables(connection))
    writer = _RecordNotes(connection, encode)
    for start in range(0, len(numbers), DOCUMENTS_OF_A_BATCH):
        numbers_of_batch = numbers[start : start + DOCUMENTS_OF_A_BATCH]
        batch = _in_transaction(connection, partial(writer.write, numbers_of_batch))
        report = _sum(report, batch)
        progress(NoteIndexProgress(documents=report.documents, total=len(numbers)))
    return report


def _in_transaction(connection: Connection, work: Callable[[], Result]) -> Result:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work()
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return result


def _sum(first: NoteIndexReport, second: NoteIndexReport) -> NoteIndexReport:
    return NoteIndexReport(
        documents=first.documents + second.documents,
        notes=first.notes + second.notes,
        sentences=first.sentences + second.sentences,
        unread=first.unread + second.unread,
    )


class _RecordNotes:
    """Writes batches of documents, patient by patient."""

    def __init__(self, connection: Connection, encode: Encode) -> None:
        self._connection = connection
        self._blobs = BlobReader(connection)
        self._writer = NoteWriter(connection, encode)

    def write(self, numbers: Sequence[int]) -> NoteIndexReport:
        """Write the documents of these numbers, as they are now."""
        found = self._connection.execute(_STORED % ", ".join("?" * len(numbers)), numbers)
        rows = [_StoredDocument(*row) for row in found]
        sentences = unread = notes = 0
        for patient, of_patient in groupby(rows, key=lambda row: row.patient):
            documents: dict[int, ReadDocument] = {}
            sources = {}
            for row in of_patient:
                documents[row.n], sources[row.n] = self._read(row)
            sentences += self._writer.write(patient, documents)
            for n, versions in sources.items():
                self._writer.write_sources(n, versions)
            read = list(documents.values())
            unread += sum(isinstance(document, UnreadDocument) for document in read)
            notes += sum(isinstance(document, Document) for document in read)
        return NoteIndexReport(documents=len(rows), notes=notes, sentences=sentences, unread=unread)

    def _read(self, row: _StoredDocument) -> tuple[ReadDocument, SourceVersions]:
        """Return the note of a row, and the versions of what it was read from."""
        resource = self._resource(row.d, row.body)
        versions: SourceVersions = {row.name: row.version}
        binaries = {}
        for binary_id in binary_ids(resource):
            version, binary = self._binary(binary_id)
            versions[f"Binary/{binary_id}"] = version
            if binary is not None:
                binaries[binary_id] = binary
        return read_document(resource, binaries.get), versions

    def _resource(self, d: int, body: bytes) -> dict[str, Any]:
        resource: dict[str, Any] = json.loads(self._blobs.decompress(d, body))
        return resource

    def _binary(self, binary_id: str) -> tuple[int | None, dict[str, Any] | None]:
        """Return the version of a Binary and the resource; None for both if it is not there."""
        sql = (
            "SELECT version, d, body FROM resource"
            " WHERE id = ? AND type = (SELECT k FROM type WHERE name = 'Binary')"
        )
        row = self._connection.execute(sql, (binary_id,)).fetchone()
        return (None, None) if row is None else (row[0], self._resource(row[1], row[2]))
