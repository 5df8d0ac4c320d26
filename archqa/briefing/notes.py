"""The notes of a patient by lines, which lines say something themselves, and how one is quoted.

A list item or a sentence is quoted with the whole line it is on.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from archqa.agents.grounding import folded
from archqa.briefing.patient_rows import LineDraft, PatientRows
from archqa.core.case import Case, Sentence
from archqa.notes.assertion import Passage, person_of
from archqa.notes.documents import Document, patient_documents
from archqa.notes.focus import PATIENT
from archqa.notes.lines import Line, is_list_line, line_width, read_lines
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices
from archqa.notes.sections import section_label
from archqa.query.execution.rows import parse_datetime, without_timezone
from archqa.terminology.concepts import find_concepts, named_things

RECENT = timedelta(days=730)

MAX_LINE_WORDS = 60
"""Of a longer line, which is a paragraph, a sentence is quoted alone."""

QUOTE_MARKS = str.maketrans({"“": '"', "”": '"'})
"""Quotation marks of a note are told from those around a quotation."""

_MAX_WRAPPED_WIDTH = 132
"""Nobody wraps lines wider than this: a note that has one has no wrapped lines."""

_LIST_MARKS = "-*•#0123456789.) \t"

_SEMANTIC_TAG = re.compile(
    r"\((?:disorder|finding|procedure|situation|regime/therapy|observable)"
)
"""The tag of a SNOMED CT name: people do not write it, a template does."""


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

    @property
    def place(self) -> str:
        """The title, the author and the day of its note."""
        return ", ".join(filter(None, (self.parts[0].source, self.date[:10])))

    @property
    def citations(self) -> tuple[str, ...]:
        """The ids of its sentences."""
        return tuple(part.id for part in self.parts)

    @property
    def quotation(self) -> str:
        """The line in quotation marks, and where it stands."""
        return f"“{self.text.translate(QUOTE_MARKS)}” ({self.place})"


class PatientNotes:
    """The notes of a patient up to the time of the summary, the oldest first; each read once."""

    def __init__(self, patient: PatientRows) -> None:
        self._patient = patient
        self.documents: list[Document] = []
        self.sentences: list[NoteSentence] = []
        self.lines: list[NoteLine] = []
        for document in reversed(
            patient_documents(patient.record, patient.patient_id).readable
        ):
            if not is_between(document.date, datetime.min, patient.now):
                continue
            sentences = document.sentences()
            self.documents.append(document)
            for sentence in sentences:
                self.sentences.append(_note_sentence(document, sentence, sentence.text))
            self.lines += _note_lines(document, sentences)

    @cached_property
    def authored_texts(self) -> frozenset[str]:
        """The texts that no program wrote around names of the record, folded."""
        if not self.sentences:
            return frozenset()
        # A record without notes needs neither.
        from archqa.chart.notes import own_texts
        from archqa.query.questions.everyday import patient_vocabulary

        texts = {folded(sentence.text): sentence.text for sentence in self.sentences}
        for line in self.lines:
            for part in line.parts:
                texts[folded(part.text)] = part.text
        vocabulary = patient_vocabulary(self._patient.record, self._patient.patient_id)
        displays = frozenset(map(str.casefold, vocabulary.displays))
        written = list(texts.values())
        authored = set()
        for index in own_texts(written, displays):
            if not _SEMANTIC_TAG.search(written[index]):
                authored.add(folded(written[index]))
        return frozenset(authored)

    @cached_property
    def authored_lines(self) -> list[NoteLine]:
        """The lines with a sentence of their own, each where it stands last, oldest first."""
        latest: dict[str, NoteLine] = {}
        for line in self.lines:
            if self._authored_parts(line):
                latest.pop(folded(line.text), None)
                latest[folded(line.text)] = line
        return list(latest.values())

    @cached_property
    def recent_lines(self) -> list[NoteLine]:
        """The lines of the last 24 months with a sentence of their own, oldest note first."""
        return [line for line in self.authored_lines if self.is_recent(line.date)]

    def is_recent(self, date: str) -> bool:
        """Whether a date lies in the last 24 months."""
        return is_between(date, self._patient.now - RECENT, self._patient.now)

    def lines_where(
        self, lines: Iterable[NoteLine], is_wanted: Callable[[NoteSentence], bool]
    ) -> list[NoteLine]:
        """Return the lines of which a sentence of their own is wanted, the newest note first.

        A sentence that names something of other people only is not.
        """
        wanted = []
        for line in lines:
            parts = filter(is_wanted, self._authored_parts(line))
            if not all(_is_of_others(part, line.heading) for part in parts):
                wanted.append(line)
        return newest_first(wanted)

    def lines_naming(self, concept: str) -> list[NoteLine]:
        """Return the recent lines that name a concept of the patient in a sentence of their own, newest first."""
        return self._lines_by_concept.get(concept, [])

    @cached_property
    def _lines_by_concept(self) -> dict[str, list[NoteLine]]:
        index: dict[str, list[NoteLine]] = {}
        for line in newest_first(self.recent_lines):
            names: set[str] = set()
            for part in self._authored_parts(line):
                passage = Passage(part.text, line.heading)
                for match in find_concepts(part.text):
                    if person_of(passage, match.start, match.end) == PATIENT:
                        names.add(match.concept.name)
            for name in names:
                index.setdefault(name, []).append(line)
        return index

    def _authored_parts(self, line: NoteLine) -> list[NoteSentence]:
        return [part for part in line.parts if folded(part.text) in self.authored_texts]


def patient_notes(patient: PatientRows) -> PatientNotes:
    """Return the notes up to the time of the summary, read once. Raises as the record does."""
    return patient.chart.get_or_compute(
        "notes of the summary", lambda: PatientNotes(patient)
    )


def is_between(date: str, since: datetime, until: datetime) -> bool:
    """Whether a date of a note lies between two times; a note without a date does not."""
    written = without_timezone(parse_datetime(date))
    return written is not None and since <= written <= until


def newest_first(lines: Sequence[NoteLine]) -> list[NoteLine]:
    """Return the lines of the newest document first, those of one document in its order."""
    documents: dict[str, list[NoteLine]] = {}
    for line in sorted(lines, key=lambda line: (line.date, line.document)):
        documents.setdefault(line.document, []).append(line)
    newest: list[NoteLine] = []
    for group in reversed(documents.values()):
        newest += group
    return newest


def quote(line: NoteLine) -> LineDraft:
    """Return a line that quotes a line of a note whole, with its document, author and date."""
    return LineDraft(line.quotation, line.citations, line.date)


def with_note(draft: LineDraft, lead: str, note: NoteLine | None) -> LineDraft:
    """Return a line with the quotation of a note at its end, after `lead` (`a note says`)."""
    if note is None:
        return draft
    citations = dict.fromkeys((*draft.citations, *note.citations))
    text = f"{draft.text}; {lead}: {note.quotation}"
    return draft._replace(text=text, citations=tuple(citations))


def _is_of_others(sentence: NoteSentence, heading: str) -> bool:
    passage = Passage(sentence.text, heading)
    people = set()
    for thing in named_things(sentence.text):
        people.add(person_of(passage, thing.start, thing.end))
    return bool(people) and PATIENT not in people


def _note_sentence(document: Document, sentence: Sentence, text: str) -> NoteSentence:
    return NoteSentence(
        sentence.id, text, document.title, document.author, document.date
    )


def _note_lines(
    document: Document, sentences: tuple[Sentence, ...]
) -> Iterator[NoteLine]:
    """Yield the lines of a note; of a line that is a paragraph, one for each of its sentences.

    Headings, signatures and the like are none.
    """
    case = Case(id=document.name, note_excerpt=document.text, sentences=sentences)
    headings = headings_of_sentences(case)
    uncitable = {sentences[index].id for index in non_evidence_indices(case)}
    positions = {sentence.id: position for position, sentence in enumerate(sentences)}
    for start, end in _spans(document.text, sentences):
        text = " ".join(document.text[start:end].split())
        parts = _parts(document, sentences, start, end)
        is_heading = text in headings.values()
        if is_heading or uncitable.issuperset(part.id for part in parts):
            continue
        heading = section_label(text) or headings.get(positions[parts[0].id], "")
        if len(text.split()) <= MAX_LINE_WORDS:
            yield NoteLine(text, parts, heading)
            continue
        for part in parts:
            yield NoteLine(" ".join(part.text.split()), (part,), heading)


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
    breaks_in_sentences: set[int] = set()
    for sentence in sentences:
        start = sentence.start_char_index or 0
        for offset, character in enumerate(sentence.text):
            if character == "\n":
                breaks_in_sentences.add(start + offset)
    lines = read_lines(text)
    width = line_width(lines)
    span: tuple[int, int] | None = None
    last: Line | None = None
    for line in lines:
        is_in_sentence = last is not None and last.end in breaks_in_sentences
        is_wrapped = width <= _MAX_WRAPPED_WIDTH and is_in_sentence
        if span and last and is_wrapped and not _is_next_item(last, line, width):
            span = (span[0], line.end)
        else:
            if span:
                yield span
            span = (line.start, line.end)
        last = line
    if span:
        yield span


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
    return any(
        match.start == 0 and match.concept.kind == "drug"
        for match in find_concepts(plain)
    )
