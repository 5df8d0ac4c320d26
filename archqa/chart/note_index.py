"""The index of a record's notes: in the record's own file, or in memory.

It is as private as the record. A batch of notes is one transaction: if the command is stopped, the next
one goes on after the last whole batch. A sentence that stands in several notes of a patient is stored
once. Sentences are numbered by patient (`sentence_numbers`), so that a search in one patient's notes reads
no other patient's. `note_words` is an FTS5 table (sqlite.org/fts5.html) with the Porter stemmer.
"""

import json
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from sqlite3 import Connection
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Sentence
from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.fhir.index.blobs import BlobReader
from archqa.fhir.index.schema import open_connection
from archqa.notes import DOCUMENT_TYPES
from archqa.notes.documents import (
    Document,
    UnreadDocument,
    binary_ids,
    read_document,
)

if TYPE_CHECKING:
    from archqa.engine.encoders import Vectors


VERSION = 2
"""Of the tables and of what is in them; an index of another version is made anew."""

BITS_OF_A_PATIENT = 24
"""A patient has at most 2**24 different sentences."""

TABLES = {
    "note_document": "n INTEGER PRIMARY KEY, patient INTEGER NOT NULL, name TEXT NOT NULL,"
    " date TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL, author TEXT NOT NULL,"
    " encounter TEXT NOT NULL, replaces TEXT NOT NULL, unread TEXT NOT NULL,"
    " outline BLOB NOT NULL",
    "note_source": "document INTEGER, name TEXT, version INTEGER, PRIMARY KEY (document, name)",
    "note_sentence": "s INTEGER PRIMARY KEY, uses INTEGER NOT NULL, text TEXT NOT NULL,"
    " vector BLOB NOT NULL",
    "note_version": "version INTEGER NOT NULL",
}
"""`note_source` has the resources that a document was read from: itself, and its Binary resources.

An `outline` has four 32-bit integers for each sentence: its number within the patient's, where it
begins, its paragraph, and its line. It is empty for a document without text.
"""

INTEGERS_OF_A_SENTENCE = 4
"""In an outline."""

_WORDS = (
    "CREATE VIRTUAL TABLE note_words USING fts5(text, content='note_sentence',"
    " content_rowid='s', detail=none, tokenize='porter unicode61 remove_diacritics 2')"
)
_INDEX = "CREATE INDEX note_document_patient ON note_document (patient)"


def create_note_tables(connection: Connection) -> None:
    """Create the tables where they are absent, or in place of those of another version."""
    if has_note_tables(connection):
        return
    drop_note_tables(connection)
    for name, columns in TABLES.items():
        without_rowid = " WITHOUT ROWID" if name == "note_source" else ""
        connection.execute(f"CREATE TABLE {name} ({columns}){without_rowid}")
    connection.execute(_INDEX)
    connection.execute(_WORDS)
    connection.execute("INSERT INTO note_version VALUES (?)", (VERSION,))


def drop_note_tables(connection: Connection) -> None:
    """Drop the tables; the notes themselves stay in their resources."""
    for name in ("note_words", *TABLES):
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def has_note_tables(connection: Connection) -> bool:
    """Whether the tables are there, of this version."""
    sql = "SELECT count(*) FROM sqlite_master WHERE name = 'note_version'"
    if not connection.execute(sql).fetchone()[0]:
        return False
    stored = connection.execute("SELECT version FROM note_version").fetchone()
    return bool(stored == (VERSION,))


def sentence_numbers(patient: int) -> range:
    """Return the numbers that the sentences of a patient may have."""
    return range(patient << BITS_OF_A_PATIENT, (patient + 1) << BITS_OF_A_PATIENT)


_MAX_REMEMBERED = 20_000
"""Vectors that are kept in memory: 30 MB."""


def encode(texts: list[str]) -> "Vectors":
    """Return vectors of shape (texts, dimensions) and length 1. Raises MissingExtra."""
    from archqa.engine.encoders import default_encoder

    return default_encoder().encode(texts)


class RememberedVectors:
    """Encodes texts, each once: the notes of a server's record are read at each question."""

    def __init__(self) -> None:
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._lock = Lock()

    def encode(self, texts: list[str]) -> "Vectors":
        """As `encode`."""
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
            if len(self._vectors) + len(new) > _MAX_REMEMBERED:
                self._vectors.clear()
                new = list(dict.fromkeys(texts))
            self._vectors.update(zip(new, encode(new), strict=True))
            known = [self._vectors[text] for text in texts]
        return np.stack(known) if known else encode([])


remembered_vectors = RememberedVectors()
"""Those of this process."""


Encode = Callable[[list[str]], NDArray[np.float32]]
"""Returns the vectors of texts, of shape (texts, dimensions)."""

ReadDocument = Document | UnreadDocument | None
"""What was read of a resource; None where it has no text and is not to be searched."""

SourceVersions = dict[str, int | None]
"""The version of each resource that a document was read from; None for one that is not there."""


class NoteWriter:
    """Writes the notes of one patient after another, within a transaction of the caller.

    `patient` and the numbers of documents are those of the record.
    """

    def __init__(self, connection: Connection, encode: Encode) -> None:
        self._connection = connection
        self._encode = encode
        self._patient = -1
        self._numbers: dict[str, int] = {}

    def write(self, patient: int, documents: Mapping[int, ReadDocument]) -> int:
        """Write documents of a patient in place of those of the same numbers.

        Returns the number of their sentences.
        """
        for n in documents:
            self._remove(n)
        if patient != self._patient:
            numbers = sentence_numbers(patient)
            sql = "SELECT text, s FROM note_sentence WHERE s BETWEEN ? AND ?"
            stored = self._connection.execute(sql, (numbers.start, numbers.stop - 1))
            self._patient, self._numbers = patient, dict(stored)
        sentences: dict[int, tuple[Sentence, ...]] = {}
        texts: list[str] = []
        for n, document in documents.items():
            sentences[n] = (
                document.sentences() if isinstance(document, Document) else ()
            )
            for sentence in sentences[n]:
                texts.append(sentence.text)
        self._add_texts(texts)
        for n, document in documents.items():
            self._add_document(n, document, sentences[n])
        return len(texts)

    def write_sources(self, n: int, versions: SourceVersions) -> None:
        """Write which versions of which resources a document was read from."""
        for name, version in versions.items():
            row = (n, name, version)
            self._connection.execute("INSERT INTO note_source VALUES (?, ?, ?)", row)

    def _add_texts(self, texts: Sequence[str]) -> None:
        """Add the texts that the patient's notes do not have yet."""
        new = [text for text in dict.fromkeys(texts) if text not in self._numbers]
        vectors = self._encode(new).astype(np.float16)
        first = (
            max(self._numbers.values(), default=sentence_numbers(self._patient).start)
            + 1
        )
        rows = []
        for s, (text, vector) in enumerate(zip(new, vectors, strict=True), start=first):
            self._numbers[text] = s
            rows.append((s, 0, text, vector.tobytes()))
        self._connection.executemany(
            "INSERT INTO note_sentence VALUES (?, ?, ?, ?)", rows
        )
        words = [(s, text) for s, _, text, _ in rows]
        self._connection.executemany(
            "INSERT INTO note_words (rowid, text) VALUES (?, ?)", words
        )

    def _add_document(
        self, n: int, document: ReadDocument, sentences: Sequence[Sentence]
    ) -> None:
        base = sentence_numbers(self._patient).start
        text = document.text if isinstance(document, Document) else ""
        outline = array("i")
        used = []
        line = position = 0
        for sentence in sentences:
            number = self._numbers[sentence.text]
            start = sentence.start_char_index or 0
            line += text.count("\n", position, start)
            position = start
            outline.extend((number - base, start, int(sentence.paragraph_id), line))
            used.append((number,))
        self._connection.executemany(
            "UPDATE note_sentence SET uses = uses + 1 WHERE s = ?", used
        )
        words: tuple[str, ...] = ("",) * 8
        if isinstance(document, Document):
            name, date, title, _, *details = document
            words = (name, date, title, *details, "")
        elif document is not None:
            words = (document.name, *words[2:], document.reason)
        row = (n, self._patient, *words)
        marks = ", ".join("?" * 11)
        sql = f"INSERT INTO note_document VALUES ({marks})"
        self._connection.execute(sql, (*row, outline.tobytes()))

    def _remove(self, n: int) -> None:
        """Remove a document, and the sentences that no other document has."""
        execute = self._connection.execute
        stored = execute(
            "SELECT patient, outline FROM note_document WHERE n = ?", (n,)
        ).fetchone()
        if stored is None:
            return
        patient, outline = stored
        base = sentence_numbers(patient).start
        used = [
            (base + number,) for number in array("i", outline)[::INTEGERS_OF_A_SENTENCE]
        ]
        less = "UPDATE note_sentence SET uses = uses - 1 WHERE s = ?"
        self._connection.executemany(less, used)
        for key in set(used):
            sql = "SELECT text FROM note_sentence WHERE s = ? AND uses = 0"
            unused = execute(sql, key).fetchone()
            if unused is not None:
                delete = "INSERT INTO note_words (note_words, rowid, text) VALUES ('delete', ?, ?)"
                execute(delete, (*key, *unused))
                execute("DELETE FROM note_sentence WHERE s = ?", key)
                self._patient = -1
        execute("DELETE FROM note_document WHERE n = ?", (n,))
        execute("DELETE FROM note_source WHERE document = ?", (n,))


Result = TypeVar("Result")

_MAX_NAMED = 10
"""Documents without text that are named; all are counted."""

DOCUMENTS_OF_A_BATCH = 100
"""Documents of one transaction."""

_TYPES = ", ".join(f"'{name}'" for name in DOCUMENT_TYPES)
_ALL = (
    f"SELECT r.n FROM resource r JOIN type t ON t.k = r.type WHERE t.name IN ({_TYPES})"
)
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

_BINARY = (
    "SELECT version, d, body FROM resource"
    " WHERE id = ? AND type = (SELECT k FROM type WHERE name = 'Binary')"
)


class NoteIndexReport(FrozenModel):
    """What was indexed.

    `documents` are resources that may have text, `notes` those that have, with their `sentences`;
    `unread` have a text that cannot be read, or were entered in error: `unread_names` are the first.
    """

    documents: int = 0
    notes: int = 0
    sentences: int = 0
    unread: int = 0
    unread_names: tuple[str, ...] = ()


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
        numbers = _outdated(connection)
        if numbers:
            _in_transaction(connection, lambda: create_note_tables(connection))
        writer = _RecordNotes(connection, encode)
        total = NoteIndexReport()
        for start in range(0, len(numbers), DOCUMENTS_OF_A_BATCH):
            batch = numbers[start : start + DOCUMENTS_OF_A_BATCH]
            report = _in_transaction(connection, partial(writer.write, batch))
            total = NoteIndexReport(
                documents=total.documents + report.documents,
                notes=total.notes + report.notes,
                sentences=total.sentences + report.sentences,
                unread=total.unread + report.unread,
                unread_names=(*total.unread_names, *report.unread_names)[:_MAX_NAMED],
            )
            progress(NoteIndexProgress(documents=total.documents, total=len(numbers)))
        return total
    except sqlite3.OperationalError as error:
        fix = "Is there room on the disk, or another load under way?"
        raise InputError(
            path, [f": its notes cannot be indexed ({error})."], fix
        ) from None
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


def _in_transaction(connection: Connection, work: Callable[[], Result]) -> Result:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


class _RecordNotes:
    """Writes batches of documents, patient by patient."""

    def __init__(self, connection: Connection, encode: Encode) -> None:
        self._connection = connection
        self._blobs = BlobReader(connection)
        self._writer = NoteWriter(connection, encode)

    def write(self, numbers: Sequence[int]) -> NoteIndexReport:
        """Write the documents of these numbers, as they are now."""
        stored = self._connection.execute(
            _STORED % ", ".join("?" * len(numbers)), numbers
        )
        rows = [_StoredDocument(*row) for row in stored]
        sentences = notes = 0
        unread: list[str] = []
        for patient, rows_of_patient in groupby(rows, key=lambda row: row.patient):
            documents: dict[int, ReadDocument] = {}
            sources = {}
            for row in rows_of_patient:
                document, sources[row.n] = self._read(row)
                documents[row.n] = document
                if isinstance(document, UnreadDocument):
                    unread.append(document.name)
                notes += isinstance(document, Document)
            sentences += self._writer.write(patient, documents)
            for n, versions in sources.items():
                self._writer.write_sources(n, versions)
        return NoteIndexReport(
            documents=len(rows),
            notes=notes,
            sentences=sentences,
            unread=len(unread),
            unread_names=tuple(unread[:_MAX_NAMED]),
        )

    def _read(self, row: _StoredDocument) -> tuple[ReadDocument, SourceVersions]:
        """Return the note of a row, and the versions of what it was read from."""
        resource = self._resource(row.d, row.body)
        versions: SourceVersions = {row.name: row.version}
        binaries = {}
        for binary_id in binary_ids(resource):
            binary = self._connection.execute(_BINARY, (binary_id,)).fetchone()
            versions[f"Binary/{binary_id}"] = None
            if binary is not None:
                versions[f"Binary/{binary_id}"], d, body = binary
                binaries[binary_id] = self._resource(d, body)
        return read_document(resource, binaries.get), versions

    def _resource(self, d: int, body: bytes) -> dict[str, Any]:
        resource: dict[str, Any] = json.loads(self._blobs.decompress(d, body))
        return resource
