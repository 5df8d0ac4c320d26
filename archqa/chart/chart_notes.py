"""The notes of one patient, as they are searched and read."""

from array import array
from collections.abc import Sequence
from functools import cached_property
from sqlite3 import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_tables import INTEGERS_OF_A_SENTENCE, sentence_numbers
from archqa.core.case import Case, Sentence
from archqa.notes.documents import UnreadDocument
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices
from archqa.notes.sections import section_label

Vectors = NDArray[np.float32]


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
        self._rows = self._read_rows()
        self.texts = [text for _, text, _ in self._rows]
        self._row_of_number = {s - self._numbers.start: i for i, (s, *_) in enumerate(self._rows)}

    def until(self, day: str) -> "ChartNotes":
        """Return the notes without those dated after a day; a text may then stand nowhere."""
        documents = [one for one in self.documents if one.date[:10] <= day]
        return ChartNotes(self._connection, self._patient, documents, self.unread)

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors of the texts, of length 1."""
        vectors = [np.frombuffer(vector, dtype=np.float16) for _, _, vector in self._rows]
        return np.stack(vectors).astype(np.float32) if vectors else np.zeros((0, 0), np.float32)

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
        bounds = (self._numbers.start, self._numbers.stop - 1)
        found = self._connection.execute(sql, (quoted, *bounds))
        return [self._row_of_number[s - self._numbers.start] for (s,) in found]

    def headings(self, index: int) -> dict[int, str]:
        """Return the heading of each sentence of the document at an index that has one.

        A label at the front of a line ("ECG: sinus rhythm.") is the heading of that line alone.
        """
        sentences = self.sentences(index)
        lines = self.documents[index].lines
        line_of_label: dict[str, int] = {}
        headings = headings_of_sentences(Case(id="", sentences=sentences))
        for position, sentence in enumerate(sentences):
            if label := section_label(sentence.text):
                line_of_label[label] = lines[position]
            elif line_of_label.get(headings.get(position, ""), lines[position]) != lines[position]:
                del headings[position]
        return headings

    def non_evidence(self, index: int) -> frozenset[int]:
        """Return the positions of the sentences of a document that are no evidence."""
        return non_evidence_indices(self._document_case(index))

    def _document_case(self, index: int) -> Case:
        return Case(id=self.documents[index].name, sentences=self.sentences(index))

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
            words += len(self.sentence_at(Place(place.document, first - 1)).text.split())
            if words > max_words:
                break
            first -= 1
        return [self.sentence_at(Place(place.document, i)) for i in range(first, last + 1)]

    def text_index(self, place: Place) -> int:
        """Return the index in `texts` of a sentence's text."""
        return self._row_of_number[self.documents[place.document].numbers[place.sentence]]

    def place_of(self, sentence_id: str) -> Place | None:
        """Return where the sentence of an id (`Type/id#12`) stands; None for an unknown id."""
        name, _, number = sentence_id.partition("#")
        index = self._index_of_name.get(name)
        if index is None or not number.isdecimal():
            return None
        is_there = 1 <= int(number) <= len(self.documents[index].numbers)
        return Place(index, int(number) - 1) if is_there else None

    def index_of(self, name: str) -> int | None:
        """Return the index of the document of a name (`Type/id`); None if there is none."""
        return self._index_of_name.get(name)

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

    def _read_rows(self) -> list[tuple[int, str, bytes]]:
        sql = "SELECT s, text, vector FROM note_sentence WHERE s BETWEEN ? AND ?"
        bounds = (self._numbers.start, self._numbers.stop - 1)
        return list(self._connection.execute(sql, bounds))


def read_chart_notes(connection: Connection, patient: int) -> ChartNotes:
    """Return the notes of a patient (its number in the record) from the tables of an index."""
    columns = "name, date, title, kind, author, encounter, unread, outline"
    sql = f"SELECT {columns} FROM note_document WHERE patient = ? AND name <> ''"
    documents: list[ChartDocument] = []
    unread: list[UnreadDocument] = []
    for name, date, title, kind, author, encounter, reason, outline in connection.execute(
        sql, (patient,)
    ):
        if reason:
            unread.append(UnreadDocument(name, reason))
            continue
        integers = array("i", outline)
        parts = [tuple(integers[i::INTEGERS_OF_A_SENTENCE]) for i in range(INTEGERS_OF_A_SENTENCE)]
        documents.append(ChartDocument(name, date, title, kind, author, encounter, *parts))
    documents.sort(key=lambda document: (document.date, document.name), reverse=True)
    return ChartNotes(connection, patient, documents, unread)
