"""Sentences of a patient's notes as a model is shown them, each under its mark `n3.12`."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from archqa.agents.chart_answer import ShownSource
from archqa.agents.grounding import dates_in_figures
from archqa.asking.answer import Evidence
from archqa.asking.chart_agent.marked_record import without_words
from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartNotes, Place
from archqa.chart.search import Hit, places_to_search, search_notes, word_scores
from archqa.chart.search_terms import search_terms
from archqa.core.case import Case, Sentence
from archqa.notes.lines import table_cells
from archqa.notes.non_evidence import non_evidence_indices, non_evidence_reasons
from archqa.query.wording.words import counted

_NEIGHBOURS = 1
"""Sentences on either side of a hit that are shown with it."""

_MAX_NOTE_CHARACTERS = 12_000
"""Text of a note that is shown at once."""

_FEW_NOTES = 4
"""Notes of one title that are listed one by one; of more, the latest ones are, and the rest counted."""

_MAX_LISTED = 60

_OPENING_SENTENCES = 5
_MAX_OPENING_CHARACTERS = 300
_NUMERIC_DATE = re.compile(r"(?<!\d)\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?!\d)")
_MONTH_OR_YEAR = re.compile(r"(?:\d{1,2}/)?\d{4}(?:-\d{2})?|\d{1,2}/\d{2}")
_EMPTY_FIRST_CELL = re.compile(r"\s*\|\s*\|")

_NUMBER = re.compile(r"\d+")
_MAX_NOTES_OF_OWN_SENTENCE = 2
"""Notes in which a sentence may stand, whatever its numbers, and be one of their own."""

_MAX_OWN_FRACTION = 0.25


class _ReadNote(NamedTuple):
    """A note's sentences, which of them are hidden or no evidence, and what belongs to them, by index.

    `opening` is what its first lines say with a date.
    """

    sentences: tuple[Sentence, ...]
    hidden: Collection[int]
    uncitable: Collection[int]
    headings: dict[int, str]
    labels: dict[int, str]
    opening: str


class MarkedNotes:
    """A patient's notes, and the sentences that were shown to a model, by mark.

    `texts` are the indices of the sentences that are searched, None for all. `hidden` are words that
    are left out of what is shown beside a sentence.
    """

    def __init__(
        self,
        notes: ChartNotes,
        encode: Encode,
        texts: Collection[int] | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        self.notes = notes
        self._hidden = hidden
        self._texts = texts
        self.shown: dict[str, ShownSource] = {}
        self._encode = encode
        self._read_notes: dict[int, _ReadNote] = {}

    def search(
        self, words: str, count: int, since: str = "", until: str = "", title: str = ""
    ) -> list[str]:
        """Return the lines of the sentences that fit best, by note, the best note first.

        With those beside them in the first notes of a title; alone in more of that title. Of
        sentences that were shown before there is but the mark. Where no sentence has any of the
        words, those nearest in meaning are unrelated, and a line says that nothing fits.
        """
        documents = self.select(since, until, title)
        if not documents:
            return ["No note fits these limits."]
        within = documents if len(documents) < len(self.notes.documents) else None
        places = places_to_search(self.notes, within, self._texts)
        missing: dict[str, None] = {}
        fitting = 0
        for term in search_terms(words):
            if not term.names:  # No note has a name of this concept.
                continue
            if word_scores(self.notes, [term], places)[list(places)].any():
                fitting += 1
            else:
                missing[" ".join(term.names[0])] = None
        if not fitting:
            searched = counted(len(documents), "note", "notes")
            return [
                f'Nothing fits "{words}": no sentence of {searched} has one of these words or '
                "another name of it. Search with other words."
            ]
        hits = search_notes(self.notes, words, self._encode, within, self._texts, count)
        lines = self._hit_lines(hits)
        if missing:
            lines.append(f"(in no sentence: {', '.join(missing)})")
        return lines

    def first_hits(self, question: str, count: int) -> list[str]:
        """Return the lines of the sentences that fit a question best.

        Without those of routine notes, unless no other note has any.
        """
        hits = search_notes(
            self.notes, question, self._encode, None, self._texts, count
        )
        selected = [
            hit for hit in hits if hit.place.document not in self._routine
        ] or hits
        lines = self._hit_lines(selected)
        hidden = len(hits) - len(selected)
        if hidden:
            left_out = counted(hidden, "hit", "hits")
            lines.append(f"({left_out} in routine notes; search_notes has them)")
        return lines

    @cached_property
    def _routine(self) -> frozenset[int]:
        """The indices of notes that a program wrote: few of their sentences are their own.

        A sentence of its own says something that resources do not, and stands in no more than two
        notes; numbers in it, such as an age, make no other sentence.
        """
        notes = self.notes
        forms = [_NUMBER.sub("0", text.casefold()) for text in notes.texts]
        documents_of_form: dict[str, set[int]] = defaultdict(set)
        for form, places in zip(forms, notes.places, strict=True):
            for place in places:
                documents_of_form[form].add(place.document)
        counts: Counter[int] = Counter()
        for index in range(len(notes.texts)) if self._texts is None else self._texts:
            if len(documents_of_form[forms[index]]) <= _MAX_NOTES_OF_OWN_SENTENCE:
                for place in notes.places[index]:
                    counts[place.document] += 1
        routine = set()
        for index, document in enumerate(notes.documents):
            if counts[index] < _MAX_OWN_FRACTION * len(document.numbers):
                routine.add(index)
        return frozenset(routine)

    def _hit_lines(self, hits: Sequence[Hit]) -> list[str]:
        positions_of_note: dict[int, list[int]] = defaultdict(list)
        for hit in hits:
            positions_of_note[hit.place.document].append(hit.place.sentence)
        lines: list[str] = []
        titles: Counter[str] = Counter()
        for index, positions in positions_of_note.items():
            title = self.notes.documents[index].title
            titles[title] += 1
            if titles[title] <= _FEW_NOTES:
                positions = list(self._with_neighbours(index, positions))
            lines += self._new_lines(index, positions)
        return lines

    def _new_lines(self, index: int, positions: Sequence[int]) -> list[str]:
        """Return the lines of sentences, and the marks alone of those that were shown before."""
        uncitable = self._read(index).uncitable
        citable = {position for position in positions if position not in uncitable}
        known = {
            position for position in citable if _mark(index, position) in self.shown
        }
        marks = ", ".join(f"[{_mark(index, position)}]" for position in sorted(known))
        if known and known == citable:
            return [f"{_mark(index)}: {marks} shown before"]
        new = []
        for position in positions:
            is_above_known = position in uncitable and position + 1 in known
            if position not in known and not is_above_known:
                new.append(position)
        lines = self._lines(index, new)
        if known:
            lines.append(f"  {marks} shown before")
        return lines

    def _with_neighbours(self, index: int, positions: Sequence[int]) -> Iterator[int]:
        """Yield hits and what is beside them; a heading after one belongs to what comes next."""
        uncitable = self._read(index).uncitable
        count = len(self.notes.documents[index].numbers)
        for hit in positions:
            yield from range(max(hit - _NEIGHBOURS, 0), hit + 1)
            for position in range(hit + 1, min(hit + _NEIGHBOURS + 1, count)):
                if position not in uncitable:
                    yield position

    def select(self, since: str = "", until: str = "", title: str = "") -> list[int]:
        """Return the notes between two dates whose title, type or author has these words.

        Dates are as precise as they are written; an empty one is open.
        """
        words = title.casefold().split()
        selected = []
        for index, document in enumerate(self.notes.documents):
            if since and document.date[: len(since)] < since:
                continue
            if until and document.date[: len(until)] > until:
                continue
            name = f"{document.title} {document.kind} {document.author}".casefold()
            if all(word in name for word in words):
                selected.append(index)
        return selected

    def note(self, mark: str, first: int = 1, last: int = 0) -> list[str]:
        """Return the lines of a note from a sentence to another; empty for an unknown mark."""
        number = mark.strip("[] ").partition(".")[0].removeprefix("n")
        if not number.isdecimal() or not 1 <= int(number) <= len(self.notes.documents):
            return []
        index = int(number) - 1
        count = len(self.notes.documents[index].numbers)
        positions: list[int] = []
        size = 0
        for position in range(max(first, 1) - 1, min(last or count, count)):
            size += len(self._read(index).sentences[position].text)
            if positions and size > _MAX_NOTE_CHARACTERS:
                break
            positions.append(position)
        lines = self._lines(index, positions)
        if positions:
            end = positions[-1] + 1
            if end < count and (not last or end < last):
                lines.append(f"({count - end} more sentences, from {end + 1} on)")
        return lines

    def listed(self, documents: Sequence[int]) -> list[str]:
        """Return a line for each of these notes, as many as are shown at once."""
        lines = [self._heading(index) for index in documents[:_MAX_LISTED]]
        hidden = len(documents) - _MAX_LISTED
        if hidden > 0:
            lines.append(f"({hidden} earlier ones; limit by date or title)")
        return lines

    def by_title(self) -> list[str]:
        """Return a line for each note; of many with one title the latest ones, and how many more."""
        notes_of_title: dict[str, list[int]] = defaultdict(list)
        for index, document in enumerate(self.notes.documents):
            notes_of_title[document.title].append(index)
        lines: list[str] = []
        for title, documents in notes_of_title.items():
            listed_count = len(documents)
            if listed_count > _FEW_NOTES:
                listed_count = _FEW_NOTES - 1
            lines += map(self._heading, documents[:listed_count])
            if len(documents) > listed_count:
                more = len(documents) - listed_count
                first = self._heading(documents[-1])
                lines.append(f'and {more} more "{title}", the first one: {first}')
        hidden = len(lines) - _MAX_LISTED
        return [*lines[:_MAX_LISTED], f"({hidden} more lines)"] if hidden > 0 else lines

    def evidence(self, sentence_id: str) -> Evidence | None:
        """Return a sentence as evidence; None for an unknown id."""
        place = self.notes.place_of(sentence_id)
        if place is None:
            return None
        document = self.notes.documents[place.document]
        read = self._read(place.document)
        return Evidence.of_sentence(
            read.sentences[place.sentence],
            read.headings.get(place.sentence, ""),
            source=document.name,
            date=document.date,
        )

    def _lines(self, index: int, positions: Collection[int]) -> list[str]:
        """Return the heading of a note and the lines of its sentences; what lies between is `…`."""
        read = self._read(index)
        lines = [self._heading(index)]
        former = -1
        for position in sorted(set(positions)):
            if position > former + 1 and former >= 0:
                lines.append("  …")
            former = position
            if position in read.hidden:
                continue
            text = read.sentences[position].text
            if position not in read.uncitable:
                source = self._source(index, position)
                self.shown[source.mark] = source
                text = f"[{source.mark}] {text}"
                if source.first_date:
                    text = f"{text} (also in a note of {source.first_date})"
            lines.append(f"  {text}")
        return lines

    def _source(self, index: int, position: int) -> ShownSource:
        document, read = self.notes.documents[index], self._read(index)
        sentence = read.sentences[position]
        before = ""
        if position and position - 1 not in read.uncitable:
            previous = read.sentences[position - 1]
            if previous.paragraph_id == sentence.paragraph_id:
                before = previous.text
        earliest, _ = self.notes.dates_of(Place(index, position))
        is_repeated = earliest[:10] < document.date[:10]
        return ShownSource(
            mark=_mark(index, position),
            ids=(sentence.id,),
            text=sentence.text,
            date=document.date[:10],
            title=", ".join(filter(None, (document.title, document.author))),
            heading=read.headings.get(position, ""),
            label=read.labels.get(position, ""),
            opening="" if _has_date(sentence.text) else read.opening,
            before=before,
            first_date=earliest[:10] if is_repeated else "",
        )

    def _heading(self, index: int) -> str:
        document = self.notes.documents[index]
        length = counted(len(document.numbers), "sentence", "sentences")
        parts = (document.date[:10], document.title, document.author, length)
        return f"{_mark(index)}: {', '.join(filter(None, parts))}"

    def _read(self, index: int) -> _ReadNote:
        if index in self._read_notes:
            return self._read_notes[index]
        sentences = self.notes.sentences(index)
        name = self.notes.documents[index].name
        case = Case(
            id=name, patient_narrative="", clinician_question="", sentences=sentences
        )
        hidden = frozenset(non_evidence_reasons(case))
        # What the first sentences say with a date, such as "DOS: 03/12/2026".
        dated = []
        for position, sentence in enumerate(sentences[:_OPENING_SENTENCES]):
            if position not in hidden and _has_date(sentence.text):
                dated.append(sentence.text)
        opening = " ".join(" ".join(dated).split())[:_MAX_OPENING_CHARACTERS]
        note = _ReadNote(
            sentences,
            hidden,
            non_evidence_indices(case),
            self.notes.headings(index),
            _row_labels(sentences, self.notes.documents[index].lines),
            without_words(opening, self._hidden),
        )
        self._read_notes[index] = note
        return note


def _mark(index: int, position: int | None = None) -> str:
    """Return the mark of a note, or of a sentence in it."""
    return f"n{index + 1}" if position is None else f"n{index + 1}.{position + 1}"


def _row_labels(sentences: Sequence[Sentence], lines: Sequence[int]) -> dict[int, str]:
    """Return what belongs to a row of a table and stands in another sentence, by position.

    It is the label cell, where a sentence goes on in the same line of the note or in a row below
    with an empty first cell; and the first row of the table, if it has the dates of the columns.
    `lines` are the numbers of the sentences' lines.
    """
    text_of_line: dict[int, str] = {}
    for sentence, line in zip(sentences, lines, strict=True):
        text_of_line[line] = f"{text_of_line.get(line, '')} {sentence.text}".strip()
    row_of_line = {line: (label, dates) for line, label, dates in _rows(text_of_line)}
    labels = {}
    for position, (sentence, line) in enumerate(zip(sentences, lines, strict=True)):
        label, dates = row_of_line.get(line, ("", ""))
        if sentence.text.lstrip("| \t").startswith(label):
            label = ""
        if label or dates:
            labels[position] = "; ".join(filter(None, (dates, label)))
    return labels


def _rows(text_of_line: dict[int, str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the label and the dates of the columns of each row of a table.

    A row with an empty first cell has the label of the row before.
    """
    label = dates = ""
    former_width = 0
    for line, text in text_of_line.items():
        cells = table_cells(text)
        if _EMPTY_FIRST_CELL.match(text):
            cells = ["", *cells]
        if len(cells) < 2:
            former_width = 0
            continue
        label = cells[0] or label
        if len(cells) == former_width:
            yield line, label, dates
        else:
            has_dates = all(
                _has_date(cell) or _MONTH_OR_YEAR.fullmatch(cell) for cell in cells[1:]
            )
            dates = " | ".join(cells) if has_dates else ""
            yield line, label, ""
        former_width = len(cells)


def _has_date(text: str) -> bool:
    """Whether a text names a day or a month."""
    return _NUMERIC_DATE.search(text) is not None or bool(dates_in_figures(text))
