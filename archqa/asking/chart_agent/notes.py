"""Sentences of a patient's notes as a model is shown them, each under its mark `n3.12`."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from archqa.agents.chart_answer import ShownSource
from archqa.asking.answer import Evidence
from archqa.asking.chart_agent.note_context import dated_opening, has_date, row_labels
from archqa.asking.chart_agent.personal import without_words
from archqa.asking.chart_agent.routine import routine_notes
from archqa.asking.record_numbers import counted
from archqa.chart.chart_notes import ChartNotes, Place
from archqa.chart.note_search import Hit, search_notes
from archqa.chart.note_writer import Encode
from archqa.core.case import Case, Sentence
from archqa.notes.non_evidence import non_evidence_indices, non_evidence_reasons

_NEIGHBOURS = 1
"""Sentences on either side of a hit that are shown with it."""

_MAX_NOTE_CHARACTERS = 12_000
"""Text of a note that is shown at once."""

_FEW_NOTES = 4
"""Notes of one title that are listed one by one; of more, the latest ones are, and the rest counted."""

_MAX_LISTED = 60


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


class ShownNotes:
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
        sentences that were shown before there is but the mark.
        """
        documents = self.select(since, until, title)
        is_limited = len(documents) < len(self.notes.documents)
        within = documents if is_limited else None
        if not documents:
            return []
        hits = search_notes(self.notes, words, self._encode, within, self._texts, count)
        return self._hit_lines(hits)

    def first_hits(self, question: str, count: int) -> list[str]:
        """Return the lines of the sentences that fit a question best.

        Without those of routine notes, unless no other note has any.
        """
        hits = search_notes(self.notes, question, self._encode, None, self._texts, count)
        kept = [hit for hit in hits if hit.place.document not in self._routine] or hits
        lines = self._hit_lines(kept)
        hidden = len(hits) - len(kept)
        if hidden:
            lines.append(
                f"({counted(hidden, 'hit', 'hits')} in routine notes; search_notes has them)"
            )
        return lines

    @cached_property
    def _routine(self) -> frozenset[int]:
        return routine_notes(self.notes, self._texts)

    def _hit_lines(self, hits: Sequence[Hit]) -> list[str]:
        lines: list[str] = []
        titles: Counter[str] = Counter()
        for index, positions in _by_note(hits).items():
            title = self.notes.documents[index].title
            titles[title] += 1
            if titles[title] <= _FEW_NOTES:
                positions = list(self._with_neighbours(index, positions))
            lines += self._new_lines(index, positions)
        return lines

    def _new_lines(self, index: int, wanted: Sequence[int]) -> list[str]:
        """Return the lines of sentences, and the marks alone of those that were shown before."""
        citable = [each for each in wanted if each not in self._read(index).uncitable]
        known = {each for each in citable if f"{_mark(index)}.{each + 1}" in self.shown}
        marks = ", ".join(f"[{_mark(index)}.{each + 1}]" for each in sorted(known))
        if known and len(known) == len(set(citable)):
            return [f"{_mark(index)}: {marks} shown before"]
        above_known = {each for each in wanted if each not in citable and each + 1 in known}
        new = [each for each in wanted if each not in known | above_known]
        lines = self._lines(index, new)
        return [*lines, f"  {marks} shown before"] if known else lines

    def _with_neighbours(self, index: int, hits: Sequence[int]) -> Iterator[int]:
        """Yield hits and what is beside them; a heading after one belongs to what comes next."""
        uncitable = self._read(index).uncitable
        count = len(self.notes.documents[index].numbers)
        for position in hits:
            yield from range(max(position - _NEIGHBOURS, 0), position + 1)
            after = range(position + 1, min(position + _NEIGHBOURS + 1, count))
            yield from (each for each in after if each not in uncitable)

    def select(self, since: str = "", until: str = "", title: str = "") -> list[int]:
        """Return the notes between two dates whose title, type or author has these words."""
        words = title.casefold().split()
        selected = []
        for index, document in enumerate(self.notes.documents):
            name = f"{document.title} {document.kind} {document.author}".casefold()
            if _is_between(document.date, since, until) and all(word in name for word in words):
                selected.append(index)
        return selected

    def note(self, mark: str, first: int = 1, last: int = 0) -> list[str]:
        """Return the lines of a note from a sentence to another; empty for an unknown mark."""
        index = self._index_of(mark)
        if index is None:
            return []
        count = len(self.notes.documents[index].numbers)
        wanted: list[int] = []
        size = 0
        for position in range(max(first, 1) - 1, min(last or count, count)):
            size += len(self._read(index).sentences[position].text)
            if wanted and size > _MAX_NOTE_CHARACTERS:
                break
            wanted.append(position)
        lines = self._lines(index, wanted)
        rest = count - (wanted[-1] + 1) if wanted else 0
        if rest and (not last or wanted[-1] + 1 < last):
            lines.append(f"({rest} more sentences, from {wanted[-1] + 2} on)")
        return lines

    def listed(self, documents: Sequence[int]) -> list[str]:
        """Return a line for each of these notes, as many as are shown at once."""
        lines = [self._heading(index) for index in documents[:_MAX_LISTED]]
        hidden = len(documents) - _MAX_LISTED
        return [*lines, f"({hidden} earlier ones; limit by date or title)"] if hidden > 0 else lines

    def by_title(self) -> list[str]:
        """Return a line for each note; of many with one title the latest ones, and how many more."""
        of_title: dict[str, list[int]] = {}
        for index, document in enumerate(self.notes.documents):
            of_title.setdefault(document.title, []).append(index)
        lines = []
        for title, documents in of_title.items():
            told = documents if len(documents) <= _FEW_NOTES else documents[: _FEW_NOTES - 1]
            lines += [self._heading(index) for index in told]
            if len(documents) > len(told):
                rest = len(documents) - len(told)
                first = self._heading(documents[-1])
                lines.append(f'and {rest} more "{title}", the first one: {first}')
        hidden = len(lines) - _MAX_LISTED
        return [*lines[:_MAX_LISTED], f"({hidden} more lines)"] if hidden > 0 else lines

    def evidence(self, sentence_id: str) -> Evidence | None:
        """Return a sentence as evidence; None for an unknown id."""
        place = self.notes.place_of(sentence_id)
        if place is None:
            return None
        document, read = self.notes.documents[place.document], self._read(place.document)
        sentence = read.sentences[place.sentence]
        return Evidence(
            id=sentence_id,
            kind="sentence",
            text=sentence.text,
            source=document.name,
            date=document.date,
            start_char_index=sentence.start_char_index,
            heading=read.headings.get(place.sentence, ""),
        )

    def _lines(self, index: int, wanted: Sequence[int]) -> list[str]:
        """Return the heading of a note and the lines of its sentences; what lies between is `…`."""
        lines = [self._heading(index)]
        former = -1
        for position in sorted(set(wanted)):
            if position > former + 1 and former >= 0:
                lines.append("  …")
            if position not in self._read(index).hidden:
                lines.append(f"  {self._line(index, position)}")
            former = position
        return lines

    def _line(self, index: int, position: int) -> str:
        read = self._read(index)
        text = read.sentences[position].text
        if position in read.uncitable:
            return text
        source = self._source(index, position)
        self.shown[source.mark] = source
        repeated = f" (also in a note of {source.first_date})" if source.first_date else ""
        return f"[{source.mark}] {text}{repeated}"

    def _source(self, index: int, position: int) -> ShownSource:
        document, read = self.notes.documents[index], self._read(index)
        sentence = read.sentences[position]
        before = read.sentences[position - 1] if position else None
        follows = before is not None and before.paragraph_id == sentence.paragraph_id
        is_shown = position - 1 not in read.uncitable
        earliest, _ = self.notes.dates_of(Place(index, position))
        is_repeated = earliest[:10] < document.date[:10]
        return ShownSource(
            mark=f"{_mark(index)}.{position + 1}",
            ids=(sentence.id,),
            text=sentence.text,
            date=document.date[:10],
            title=", ".join(filter(None, (document.title, document.author))),
            heading=read.headings.get(position, ""),
            label=read.labels.get(position, ""),
            opening="" if has_date(sentence.text) else read.opening,
            before=before.text if before is not None and follows and is_shown else "",
            first_date=earliest[:10] if is_repeated else "",
        )

    def _heading(self, index: int) -> str:
        document = self.notes.documents[index]
        length = counted(len(document.numbers), "sentence", "sentences")
        parts = (document.date[:10], document.title, document.author, length)
        return f"{_mark(index)}: {', '.join(filter(None, parts))}"

    def _index_of(self, mark: str) -> int | None:
        number = mark.strip("[] ").partition(".")[0].removeprefix("n")
        is_known = number.isdecimal() and 1 <= int(number) <= len(self.notes.documents)
        return int(number) - 1 if is_known else None

    def _read(self, index: int) -> _ReadNote:
        if index not in self._read_notes:
            self._read_notes[index] = self._read_note(index)
        return self._read_notes[index]

    def _read_note(self, index: int) -> _ReadNote:
        sentences = self.notes.sentences(index)
        name = self.notes.documents[index].name
        case = Case(id=name, patient_narrative="", clinician_question="", sentences=sentences)
        hidden = frozenset(non_evidence_reasons(case))
        shown = ["" if i in hidden else one.text for i, one in enumerate(sentences)]
        return _ReadNote(
            sentences,
            hidden,
            non_evidence_indices(case),
            self.notes.headings(index),
            row_labels(sentences, self.notes.documents[index].lines),
            without_words(dated_opening(shown), self._hidden),
        )


def _mark(index: int) -> str:
    return f"n{index + 1}"


def _by_note(hits: Sequence[Hit]) -> dict[int, list[int]]:
    """Return the positions of hits by note, the best note first."""
    positions: dict[int, list[int]] = {}
    for hit in hits:
        positions.setdefault(hit.place.document, []).append(hit.place.sentence)
    return positions


def _is_between(date: str, since: str, until: str) -> bool:
    """Whether a date lies between two others, each as precise as it is written; empty is open."""
    return (not since or date[: len(since)] >= since) and (not until or date[: len(until)] <= until)
