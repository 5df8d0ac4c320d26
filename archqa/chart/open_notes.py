"""Opens the notes of a patient: from the index in the record's file, else indexed in memory."""

import sqlite3
from sqlite3 import Connection

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

    def open(self, patient: str, *given: Document) -> ChartNotes:
        """Return the notes of a patient (`id`), the latest first, with more that are `given`.

        Raises FhirError.
        """
        if isinstance(self._record, Store) and not given:
            with self._record.read_session() as session:
                number = _number(session.connection, patient)
                if number is not None and _is_indexed(session.connection, number):
                    return read_chart_notes(session.connection, number)
        return self._read(patient, given)

    def _read(self, patient: str, given: tuple[Document, ...]) -> ChartNotes:
        readable, unread = patient_documents(self._record, patient)
        documents: list[ReadDocument] = [*given, *readable, *unread]
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_note_tables(connection)
        NoteWriter(connection, self._encode).write(_IN_MEMORY, dict(enumerate(documents)))
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
