"""The notes of a patient by lines: a list item or a sentence is quoted with the whole line it is on."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.core.case import Case, Sentence
from archqa.fhir import Record
from archqa.notes.documents import Document, patient_documents
from archqa.notes.lines import Line, is_list_line, line_width, read_lines
from archqa.notes.non_evidence import headings_of_sentences
from archqa.notes.sections import section_label
from archqa.query.execution.rows import parse_datetime, without_timezone
from archqa.terminology.concepts import find_concepts

MAX_LINE_WORDS = 60
"""Of a longer line, which is a paragraph, a sentence is quoted alone."""

_MAX_WRAPPED_WIDTH = 132
"""Nobody wraps lines wider than this: a note that has one has no wrapped lines."""

_LIST_MARKS = "-*•#0123456789.) \t"


class NoteSentence(NamedTuple):
    """A sentence as it stands in its document; `id` is `DocumentReference/<id>#<n>`."""

    id: str
    text: str
    title: str = ""
    author: str = ""
    date: str = ""

    @property
    def source(self) -> str:
        """The document in words: its title and its author."""
        return ", ".join(filter(None, (self.title, self.author)))


class NoteLine(NamedTuple):
    """A line of a note, as long as it was written: `parts` are its sentences, cut to the line.

    `heading` is what it stands under, or its own label (`ALLERGY:`).
    """

    text: str
    parts: tuple[NoteSentence, ...]
    heading: str = ""

    @property
    def date(self) -> str:
        """The date of its note."""
        return self.parts[0].date

    @property
    def document(self) -> str:
        """The note, `Type/id`."""
        return self.parts[0].id.partition("#")[0]


class Notes(NamedTuple):
    """The notes of a patient up to a time, the oldest first, with their sentences and lines."""

    documents: tuple[Document, ...] = ()
    sentences: tuple[NoteSentence, ...] = ()
    lines: tuple[NoteLine, ...] = ()


def read_notes(record: Record, patient: str, until: datetime) -> Notes:
    """Return the notes of a patient up to a time; those without a date are left out.

    Raises as the record does.
    """
    documents = [
        document
        for document in reversed(patient_documents(record, patient).readable)
        if is_between(document.date, datetime.min, until)
    ]
    sentences: list[NoteSentence] = []
    lines: list[NoteLine] = []
    for document in documents:
        own = document.sentences()
        sentences += [_note_sentence(document, sentence) for sentence in own]
        lines += _note_lines(document, own)
    return Notes(tuple(documents), tuple(sentences), tuple(lines))


def is_between(date: str, since: datetime, until: datetime) -> bool:
    """Whether a date of a note lies between two times; a note without a date does not."""
    written = without_timezone(parse_datetime(date))
    return written is not None and since <= written <= until


def folded(text: str) -> str:
    """Return a text in small letters with single spaces, to compare."""
    return " ".join(text.casefold().split())


def _note_sentence(document: Document, sentence: Sentence, text: str | None = None) -> NoteSentence:
    own_text = sentence.text if text is None else text
    return NoteSentence(sentence.id, own_text, document.title, document.author, document.date)


def _note_lines(document: Document, sentences: Sequence[Sentence]) -> Iterator[NoteLine]:
    headings = headings_of_sentences(Case(id=document.name, sentences=tuple(sentences)))
    label_lines: dict[str, int] = {}
    positions = {sentence.id: position for position, sentence in enumerate(sentences)}
    for number, (start, end) in enumerate(_spans(document.text, sentences)):
        text = " ".join(document.text[start:end].split())
        parts = _parts(document, sentences, start, end)
        label = section_label(text)
        label_lines.update((section_label(part.text), number) for part in parts)
        if parts and text:
            heading = headings.get(positions[parts[0].id], "")
            is_label_of_other = label_lines.get(heading, number) != number
            own = label or ("" if is_label_of_other else heading)
            yield from _of_fitting_length(NoteLine(text, parts, own))


def _of_fitting_length(line: NoteLine) -> Iterator[NoteLine]:
    """Yield the line; of a paragraph, a line for each of its sentences."""
    if len(line.text.split()) <= MAX_LINE_WORDS:
        yield line
        return
    for part in line.parts:
        yield line._replace(text=" ".join(part.text.split()), parts=(part,))


def _parts(
    document: Document, sentences: Iterable[Sentence], start: int, end: int
) -> tuple[NoteSentence, ...]:
    """The sentences between two positions, cut where they go on beyond them."""
    parts = []
    for sentence in sentences:
        first = sentence.start_char_index or 0
        low, high = max(first, start), min(first + len(sentence.text), end)
        if document.text[low:high].strip():
            parts.append(_note_sentence(document, sentence, document.text[low:high]))
    return tuple(parts)


def _spans(text: str, sentences: Sequence[Sentence]) -> Iterator[tuple[int, int]]:
    """Yield where the lines of a note begin and end; a wrapped line is one with what it continues."""
    lines = read_lines(text)
    is_wrapped = line_width(lines) <= _MAX_WRAPPED_WIDTH
    joined = _positions_inside(sentences)
    span: tuple[int, int] | None = None
    last: Line | None = None
    for line in lines:
        continues = last is not None and is_wrapped and last.end in joined
        if span and last and continues and not _is_next_item(last, line, line_width(lines)):
            span = (span[0], line.end)
        else:
            if span:
                yield span
            span = (line.start, line.end)
        last = line
    if span:
        yield span


def _positions_inside(sentences: Iterable[Sentence]) -> frozenset[int]:
    """The positions of line breaks that stand within a sentence."""
    positions: set[int] = set()
    for sentence in sentences:
        start = sentence.start_char_index or 0
        positions.update(start + i for i, mark in enumerate(sentence.text) if mark == "\n")
    return frozenset(positions)


def _is_next_item(line: Line, next_line: Line, width: int) -> bool:
    """Whether a line begins something new: its first word would have fit on the line before."""
    if is_list_line(next_line.text):
        return True
    if _begins_with_drug(line.text) and _begins_with_drug(next_line.text):
        return True
    first_word = next_line.text.split()[0]
    return len(line.text.rstrip()) + 1 + len(first_word) <= width


def _begins_with_drug(text: str) -> bool:
    plain = text.lstrip(_LIST_MARKS)
    return any(match.start == 0 and match.concept.kind == "drug" for match in find_concepts(plain))
