"""Writes notes to the tables of a note index."""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from sqlite3 import Connection

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_tables import INTEGERS_OF_A_SENTENCE, sentence_numbers
from archqa.core.case import Sentence
from archqa.notes.documents import Document, UnreadDocument

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
            self._patient, self._numbers = patient, self._stored_numbers(patient)
        sentences = {n: _sentences(document) for n, document in documents.items()}
        self._add_texts([one.text for own in sentences.values() for one in own])
        for n, document in documents.items():
            self._add_document(n, document, sentences[n])
        return sum(map(len, sentences.values()))

    def write_sources(self, n: int, versions: SourceVersions) -> None:
        """Write which versions of which resources a document was read from."""
        rows = [(n, name, version) for name, version in versions.items()]
        self._connection.executemany("INSERT INTO note_source VALUES (?, ?, ?)", rows)

    def _stored_numbers(self, patient: int) -> dict[str, int]:
        numbers = sentence_numbers(patient)
        sql = "SELECT text, s FROM note_sentence WHERE s BETWEEN ? AND ?"
        return dict(self._connection.execute(sql, (numbers.start, numbers.stop - 1)))

    def _add_texts(self, texts: Sequence[str]) -> None:
        """Add the texts that the patient's notes do not have yet."""
        new = [text for text in dict.fromkeys(texts) if text not in self._numbers]
        vectors = self._encode(new).astype(np.float16)
        first = max(self._numbers.values(), default=sentence_numbers(self._patient).start) + 1
        rows = []
        for s, (text, vector) in enumerate(zip(new, vectors, strict=True), start=first):
            self._numbers[text] = s
            rows.append((s, 0, text, vector.tobytes()))
        self._connection.executemany("INSERT INTO note_sentence VALUES (?, ?, ?, ?)", rows)
        words = [(s, text) for s, _, text, _ in rows]
        self._connection.executemany("INSERT INTO note_words (rowid, text) VALUES (?, ?)", words)

    def _add_document(self, n: int, document: ReadDocument, sentences: Sequence[Sentence]) -> None:
        base = sentence_numbers(self._patient).start
        outline = array("i")
        for sentence, line in zip(sentences, _line_numbers(document, sentences), strict=True):
            number = self._numbers[sentence.text] - base
            start = sentence.start_char_index or 0
            outline.extend((number, start, int(sentence.paragraph_id), line))
        used = [(base + number,) for number in outline[::INTEGERS_OF_A_SENTENCE]]
        self._connection.executemany("UPDATE note_sentence SET uses = uses + 1 WHERE s = ?", used)
        name, date, title, kind, author, encounter, unread = _columns(document)
        row = (n, self._patient, name, date, title, kind, author, encounter, unread)
        marks = ", ".join("?" * 10)
        sql = f"INSERT INTO note_document VALUES ({marks})"
        self._connection.execute(sql, (*row, outline.tobytes()))

    def _remove(self, n: int) -> None:
        """Remove a document, and the sentences that no other document has."""
        execute = self._connection.execute
        stored = execute("SELECT patient, outline FROM note_document WHERE n = ?", (n,)).fetchone()
        if stored is None:
            return
        patient, outline = stored
        base = sentence_numbers(patient).start
        used = [(base + number,) for number in array("i", outline)[::INTEGERS_OF_A_SENTENCE]]
        less = "UPDATE note_sentence SET uses = uses - 1 WHERE s = ?"
        self._connection.executemany(less, used)
        for (s,) in set(used):
            self._remove_unused_text(s)
        execute("DELETE FROM note_document WHERE n = ?", (n,))
        execute("DELETE FROM note_source WHERE document = ?", (n,))

    def _remove_unused_text(self, s: int) -> None:
        sql = "SELECT text FROM note_sentence WHERE s = ? AND uses = 0"
        unused = self._connection.execute(sql, (s,)).fetchone()
        if unused is None:
            return
        delete = "INSERT INTO note_words (note_words, rowid, text) VALUES ('delete', ?, ?)"
        self._connection.execute(delete, (s, unused[0]))
        self._connection.execute("DELETE FROM note_sentence WHERE s = ?", (s,))
        self._patient = -1


def _sentences(document: ReadDocument) -> tuple[Sentence, ...]:
    return document.sentences() if isinstance(document, Document) else ()


def _line_numbers(document: ReadDocument, sentences: Sequence[Sentence]) -> Iterator[int]:
    """Yield the number of the line on which each sentence begins."""
    text = document.text if isinstance(document, Document) else ""
    line = position = 0
    for sentence in sentences:
        start = sentence.start_char_index or 0
        line += text.count("\n", position, start)
        position = start
        yield line


def _columns(document: ReadDocument) -> tuple[str, str, str, str, str, str, str]:
    """Return name, date, title, kind, author, encounter, and why the document was not read."""
    if isinstance(document, Document):
        name, date, title, _, kind, author, encounter = document
        return name, date, title, kind, author, encounter, ""
    if document is None:
        return "", "", "", "", "", "", ""
    return document.name, "", "", "", "", "", document.reason
