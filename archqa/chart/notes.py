"""The notes of one patient: opened, read, and which of their sentences only list resources."""

import re
import sqlite3
from array import array
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from sqlite3 import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_index import (
    INTEGERS_OF_A_SENTENCE,
    OUTDATED,
    Encode,
    NoteWriter,
    ReadDocument,
    create_note_tables,
    has_note_tables,
    sentence_numbers,
)
from archqa.chart.weights import WEIGHTS
from archqa.core.case import Case, Sentence
from archqa.fhir import Record, Store
from archqa.notes import DOCUMENT_TYPES
from archqa.notes.documents import (
    Document,
    UnreadDocument,
    patient_documents,
    without_replaced,
)
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices

Vectors = NDArray[np.float32]

_TYPES = ", ".join(f"'{name}'" for name in DOCUMENT_TYPES)
_OF_PATIENT = f"""
    r.n IN (SELECT n FROM reference WHERE t = ? AND p IN (
        SELECT p FROM element WHERE kind = 'reference' AND type IN ({_TYPES})
    ))
"""
_IN_MEMORY = 1
"""The number of the patient in an index in memory."""
_BULLET = re.compile(r"^[\s\-–•*#\d.)]+")
_SEPARATORS = re.compile(r"[,;:]\s|\sand\s")
_LETTER = re.compile(r"[^\W\d_]")
_RESULT = re.compile(r"^(.+?): [<>]?\d[\d.,/]*(?: \S+)?$")
"""A name and a number with its unit, as a list of results has them."""
_WHOLE_NAME = "\x00"
"""Stands for a name that would be split."""


class Place(NamedTuple):
    """A sentence of a note: the positions of the document and of the sentence in it."""

    document: int
    sentence: int


class ChartDocument(NamedTuple):
    """A note without its text.

    `numbers` are those of its sentences' texts, `starts` where they begin in the note, `paragraphs`
    and `lines` the numbers of their paragraphs and lines. All other fields are those of `archqa.notes.Document`.
    """

    name: str
    date: str
    title: str
    kind: str
    author: str
    encounter: str
    replaces: str
    numbers: tuple[int, ...]
    starts: tuple[int, ...]
    paragraphs: tuple[int, ...]
    lines: tuple[int, ...]

    def sentence_id(self, position: int) -> str:
        """Return the id of a sentence, `Type/id#1` for the one at position 0."""
        return f"{self.name}#{position + 1}"


class ChartNotes:
    """The notes of a patient, the latest first.

    `texts` are the different sentences of all notes and `vectors` (texts, dimensions) theirs;
    documents refer to them by number. Not safe to share among threads: it reads its connection.
    """

    def __init__(
        self,
        connection: Connection,
        patient: int,
        documents: Sequence[ChartDocument],
        unread: Sequence[UnreadDocument],
    ) -> None:
        self.documents = tuple(documents)
        self.unread = tuple(unread)
        self._connection = connection
        self._patient = patient
        self._numbers = sentence_numbers(patient)
        sql = "SELECT s, text, vector FROM note_sentence WHERE s BETWEEN ? AND ?"
        self._bounds = (self._numbers.start, self._numbers.stop - 1)
        self._vectors: list[bytes] = []
        self.texts: list[str] = []
        self._row_of_number: dict[int, int] = {}
        for row, (number, text, vector) in enumerate(
            connection.execute(sql, self._bounds)
        ):
            self._row_of_number[number - self._numbers.start] = row
            self.texts.append(text)
            self._vectors.append(vector)

    def until(self, day: str) -> "ChartNotes":
        """Return the notes without those dated after a day; a text may then stand nowhere."""
        documents = [
            document for document in self.documents if document.date[:10] <= day
        ]
        return ChartNotes(self._connection, self._patient, documents, self.unread)

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors of the texts, of length 1."""
        if not self._vectors:
            return np.zeros((0, 0), np.float32)
        values = np.frombuffer(b"".join(self._vectors), dtype=np.float16)
        return values.reshape(len(self._vectors), -1).astype(np.float32)

    @cached_property
    def places(self) -> list[list[Place]]:
        """Where each text stands, in the order of the documents."""
        places: list[list[Place]] = [[] for _ in self.texts]
        for index, document in enumerate(self.documents):
            for position, number in enumerate(document.numbers):
                places[self._row_of_number[number]].append(Place(index, position))
        return places

    @cached_property
    def word_counts(self) -> NDArray[np.float64]:
        """The number of words of each text."""
        return np.array([len(text.split()) for text in self.texts], dtype=np.float64)

    def with_word(self, word: str) -> list[int]:
        """Return the indices of the texts that have a word, in any of its English forms."""
        quoted = '"' + word.replace('"', '""') + '"'
        sql = "SELECT rowid FROM note_words WHERE note_words MATCH ? AND rowid BETWEEN ? AND ?"
        first = self._numbers.start
        numbers = self._connection.execute(sql, (quoted, *self._bounds))
        return [self._row_of_number[number - first] for (number,) in numbers]

    def headings(self, index: int) -> dict[int, str]:
        """Return the heading of each sentence of the document at an index that has one."""
        document = self.documents[index]
        sentences = self.sentences(index)
        texts: list[str] = []
        end = line_of_end = 0
        for sentence, start, line in zip(
            sentences, document.starts, document.lines, strict=True
        ):
            breaks = "\n" * (line - line_of_end)
            texts += (breaks.ljust(start - end), sentence.text)
            end = start + len(sentence.text)
            line_of_end = line + sentence.text.count("\n")
        case = Case(id="", note_excerpt="".join(texts), sentences=sentences)
        return headings_of_sentences(case)

    def non_evidence(self, index: int) -> frozenset[int]:
        """Return the positions of the sentences of a document that are no evidence."""
        name = self.documents[index].name
        return non_evidence_indices(Case(id=name, sentences=self.sentences(index)))

    def sentences(self, index: int) -> tuple[Sentence, ...]:
        """Return the sentences of the document at an index."""
        document = self.documents[index]
        return tuple(self._sentence(document, i) for i in range(len(document.numbers)))

    def sentence_at(self, place: Place) -> Sentence:
        """Return a sentence."""
        return self._sentence(self.documents[place.document], place.sentence)

    def line_around(self, place: Place, max_words: int) -> list[Sentence]:
        """Return the sentences of a line of a note: all, or with `max_words` words at most.

        The sentence at `place` is always one of them; those that follow it come before those that
        precede it where not all fit.
        """
        lines = self.documents[place.document].lines
        line = lines[place.sentence]
        first = last = place.sentence
        words = len(self.sentence_at(place).text.split())
        while last + 1 < len(lines) and lines[last + 1] == line:
            words += len(self.sentence_at(Place(place.document, last + 1)).text.split())
            if words > max_words:
                break
            last += 1
        while first > 0 and lines[first - 1] == line and words <= max_words:
            words += len(
                self.sentence_at(Place(place.document, first - 1)).text.split()
            )
            if words > max_words:
                break
            first -= 1
        return [
            self.sentence_at(Place(place.document, i)) for i in range(first, last + 1)
        ]

    def text_index(self, place: Place) -> int:
        """Return the index in `texts` of a sentence's text."""
        return self._row_of_number[
            self.documents[place.document].numbers[place.sentence]
        ]

    def place_of(self, sentence_id: str) -> Place | None:
        """Return where the sentence of an id (`Type/id#12`) stands; None for an unknown id."""
        name, _, number = sentence_id.partition("#")
        index = self._index_of_name.get(name)
        if index is None or not number.isdecimal():
            return None
        is_there = 1 <= int(number) <= len(self.documents[index].numbers)
        return Place(index, int(number) - 1) if is_there else None

    def dates_of(self, place: Place) -> tuple[str, str]:
        """Return the dates of the earliest and the latest note that have this sentence."""
        places = self.places[self.text_index(place)]
        dates = sorted(self.documents[other.document].date for other in places)
        return dates[0], dates[-1]

    @cached_property
    def _index_of_name(self) -> dict[str, int]:
        return {document.name: index for index, document in enumerate(self.documents)}

    def _sentence(self, document: ChartDocument, position: int) -> Sentence:
        return Sentence(
            id=document.sentence_id(position),
            text=self.texts[self._row_of_number[document.numbers[position]]],
            paragraph_id=f"{document.name}#{document.paragraphs[position]}",
            start_char_index=document.starts[position],
        )


def read_chart_notes(connection: Connection, patient: int) -> ChartNotes:
    """Return the notes of a patient (its number in the record) from the tables of an index."""
    columns = "name, date, title, kind, author, encounter, replaces, unread, outline"
    sql = f"SELECT {columns} FROM note_document WHERE patient = ? AND name <> ''"
    documents: list[ChartDocument] = []
    unread: list[UnreadDocument] = []
    for *texts, reason, outline in connection.execute(sql, (patient,)):
        if reason:
            unread.append(UnreadDocument(texts[0], reason))
            continue
        integers = array("i", outline)
        parts = [
            tuple(integers[i::INTEGERS_OF_A_SENTENCE])
            for i in range(INTEGERS_OF_A_SENTENCE)
        ]
        documents.append(ChartDocument(*texts, *parts))
    valid, replaced = without_replaced(documents)
    unread += replaced
    valid.sort(key=lambda document: (document.date, document.name), reverse=True)
    return ChartNotes(connection, patient, valid, unread)


class NoteOpener(NamedTuple):
    """Opens the notes of patients of a record.

    `encode` gives the vectors of sentences; a record on a server, or one whose index lacks notes
    of the patient, is read and indexed in memory.
    """

    record: Record
    encode: Encode

    def open(self, patient: str, *extra: Document) -> ChartNotes:
        """Return the notes of a patient (`id`), the latest first, with `extra` ones.

        Raises FhirError.
        """
        indexed = self._indexed(patient)
        if indexed is not None and not extra:
            return indexed
        known = (
            {}
            if indexed is None
            else dict(zip(indexed.texts, indexed.vectors, strict=True))
        )

        def encode(texts: list[str]) -> NDArray[np.float32]:
            """Return the vectors of texts; known ones are not computed again."""
            new = [text for text in texts if text not in known]
            vectors = {**known, **dict(zip(new, self.encode(new), strict=True))}
            return np.array([vectors[text] for text in texts], dtype=np.float32)

        readable, unread = patient_documents(self.record, patient)
        documents: list[ReadDocument] = [*extra, *readable, *unread]
        connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        create_note_tables(connection)
        NoteWriter(connection, encode).write(_IN_MEMORY, dict(enumerate(documents)))
        return read_chart_notes(connection, _IN_MEMORY)

    def _indexed(self, patient: str) -> ChartNotes | None:
        """Return the notes of the index; None if it lacks one of them."""
        if not isinstance(self.record, Store):
            return None
        with self.record.read_session() as session:
            connection = session.connection
            sql = "SELECT t FROM target WHERE id = ? AND type = 'Patient'"
            row = connection.execute(sql, (patient,)).fetchone()
            if row is None or not has_note_tables(connection):
                return None
            outdated = f"SELECT EXISTS ({OUTDATED} AND {_OF_PATIENT})"
            if connection.execute(outdated, (row[0],)).fetchone()[0]:
                return None
            return read_chart_notes(connection, int(row[0]))


def own_texts(texts: Sequence[str], displays: AbstractSet[str]) -> list[int]:
    """Return the indices of the texts that say something of their own.

    Left out are texts without words, such as a date; leads to a list; and what only names
    resources, also in a phrase that other sentences have around other names ("Patient has a history
    of …"). `displays` are the names of the patient's resources in lower case.
    """
    divisible = [name for name in displays if _SEPARATORS.search(name)]
    divisible.sort(key=lambda name: (-len(name), name))
    frames = [_frame(text, displays, divisible) for text in texts]
    uses = Counter(frames)
    own = []
    for index, (text, frame) in enumerate(zip(texts, frames, strict=True)):
        is_list = frame == ""
        is_template = frame is not None and uses[frame] >= WEIGHTS.min_template_uses
        is_lead = text.rstrip().endswith(":")
        if _LETTER.search(text) and not (is_list or is_template or is_lead):
            own.append(index)
    return own


def _frame(
    text: str, displays: AbstractSet[str], divisible: Sequence[str]
) -> str | None:
    """Return the words of a text around names of resources; None if it names none.

    `divisible` are the names that have a comma or an "and" in them, the longest first.
    """
    # Bullet, capitals and the final full stop do not count.
    folded = " ".join(_BULLET.sub("", text).casefold().split()).rstrip(".")
    result = _RESULT.match(folded)
    if result and result[1] in displays:
        return ""
    for name in divisible:
        folded = folded.replace(name, _WHOLE_NAME)
    words = []
    named = 0
    for part in _SEPARATORS.split(folded):
        if part.strip():
            before = _before_display(part.strip(), displays)
            named += before is not None
            words.append(part.strip() if before is None else before)
    if not named or named < len(words) - 1:
        return None
    return " ".join(filter(None, words))


def _before_display(part: str, displays: AbstractSet[str]) -> str | None:
    """Return what stands before the name of a resource at the end of a text; None without one."""
    words = part.split()
    if words and words[-1] == _WHOLE_NAME:
        return " ".join(words[:-1])
    for start in range(len(words)):
        if " ".join(words[start:]) in displays:
            return " ".join(words[:start])
    return None
