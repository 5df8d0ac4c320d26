"""Opens the notes of a patient: from the index in the record's file, else indexed in memory."""

import sqlite3
from collections.abc import Mapping, Sequence
from sqlite3 import Connection

import numpy as np
from numpy.typing import NDArray

from archqa.chart.chart_notes import ChartNotes, read_chart_notes
from archqa.chart.note_indexing import OUTDATED
from archqa.chart.note_tables import create_note_tables, has_note_tables
from archqa.chart.note_writer import Encode, NoteWriter, ReadDocument
from archqa.fhir import Record, Store
from archqa.notes.documents import DOCUMENT_TYPES, Document, patient_documents

_TYPES = ", ".join(f"'{name}'" for name in DOCUMENT_TYPES)
_OF_PATIENT = f"""
    r.n IN (SELECT n FROM reference WHERE t = ? AND p IN (
        SELECT p FROM element WHERE kind = 'reference' AND type IN ({_TYPES})
    ))
"""
_IN_MEMORY = 1
"""The number of the patient in an index in memory."""


class NoteOpener:
    """Opens the notes of patients of a record.

    `encode` gives the vectors of sentences; a record on a server, or one whose index lacks notes
    of the patient, is read and indexed in memory.
    """

    def __init__(self, record: Record, encode: Encode) -> None:
        self._record = record
        self._encode = encode

    def open(self, patient: str, *extra: Document) -> ChartNotes:
        """Return the notes of a patient (`id`), the latest first, with `extra` ones.

        Raises FhirError.
        """
        indexed = self._indexed(patient)
        if indexed is not None and not extra:
            return indexed
        known = {} if indexed is None else dict(zip(indexed.texts, indexed.vectors, strict=True))
        return self._read(patient, extra, known)

    def _indexed(self, patient: str) -> ChartNotes | None:
        """Return the notes of the index; None if it lacks one of them."""
        if not isinstance(self._record, Store):
            return None
        with self._record.read_session() as session:
            number = _number(session.connection, patient)
            if number is None or not _is_indexed(session.connection, number):
                return None
            return read_chart_notes(session.connection, number)

    def _read(
        self, patient: str, extra: Sequence[Document], known: Mapping[str, NDArray[np.float32]]
    ) -> ChartNotes:
        """Read and index the notes in memory; vectors of `known` texts are not computed again."""

        def encode(texts: list[str]) -> NDArray[np.float32]:
            new = [text for text in texts if text not in known]
            vectors = {**known, **dict(zip(new, self._encode(new), strict=True))}
            return np.array([vectors[text] for text in texts], dtype=np.float32)

        readable, unread = patient_documents(self._record, patient)
        documents: list[ReadDocument] = [*extra, *readable, *unread]
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_note_tables(connection)
        NoteWriter(connection, encode).write(_IN_MEMORY, dict(enumerate(documents)))
        return read_chart_notes(connection, _IN_MEMORY)


def _number(connection: Connection, patient: str) -> int | None:
    sql = "SELECT t FROM target WHERE id = ? AND type = 'Patient'"
    row = connection.execute(sql, (patient,)).fetchone()
    return None if row is None else int(row[0])


def _is_indexed(connection: Connection, patient: int) -> bool:
    """Whether the index has every document of the patient as it is now."""
    if not has_note_tables(connection):
        return False
    sql = f"SELECT EXISTS ({OUTDATED} AND {_OF_PATIENT})"
    return not connection.execute(sql, (patient,)).fetchone()[0]
