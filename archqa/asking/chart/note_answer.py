"""Answers from a patient's notes by the embedded engine: dated lines, each with its sentence."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import NamedTuple

from archqa.asking.answer import (
    Answer,
    AnsweredBy,
    AnswerLine,
    AnswerSpan,
    Evidence,
    Status,
)
from archqa.asking.chart.ask_chart import PatientChart
from archqa.asking.note import answer_lines, line_opening, read_opening
from archqa.asking.question_parts import asks
from archqa.chart.findings import NoteFinder, NoteFinding
from archqa.chart.note_index import encode, remembered_vectors
from archqa.chart.notes import ChartNotes, NoteOpener, Place, own_texts
from archqa.chart.search import note_limits, texts_with_term
from archqa.chart.search_terms import concept_term, content_words
from archqa.chart.weights import WEIGHTS
from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import NEAREST
from archqa.engine.windows import tokenize_text
from archqa.fhir import Resource
from archqa.notes.assertion import Mismatch, Naming
from archqa.notes.documents import Document
from archqa.notes.yes_no import YesNo
from archqa.query.questions.everyday import Vocabulary
from archqa.query.wording.words import counted
from archqa.terminology.concepts import find_concepts

_SEARCHED = {
    "Observation": ("observation", "observations"),
    "Condition": ("diagnosis", "diagnoses"),
    "MedicationRequest": ("medication order", "medication orders"),
    "Procedure": ("procedure", "procedures"),
    "Immunization": ("immunization", "immunizations"),
    "AllergyIntolerance": ("allergy", "allergies"),
}
"""What the resources of a type are called where it is said what was searched."""

QuotedLine = tuple[AnswerLine, list[Evidence]]
"""A line of an answer, and what it cites."""


class NoteAnswerer(NamedTuple):
    """Answers the parts of a question from one patient's notes."""

    finder: NoteFinder
    vocabulary: Vocabulary
    today: date
    encounters: Callable[[], Iterable[Resource]] = tuple

    @property
    def answered_by(self) -> AnsweredBy:
        """The engine that answers, with the digest of its network."""
        return AnsweredBy(reader="engine", engine=self.finder.fingerprint[:12])

    def quoted(self, place: Place) -> QuotedLine:
        """Return a sentence as a line of an answer, with its date, and what it cites."""
        sentence = self.finder.notes.sentence_at(place)
        return self._line("", NoteFinding(place, sentence), None)

    def answer(self, question: str, parts: Sequence[str]) -> Answer:
        """Return the lines of all parts; not found if no sentence answers any."""
        notes = self.finder.notes
        max_read = WEIGHTS.max_read
        if len(parts) > 1:
            max_read = max(WEIGHTS.max_read_of_parts // len(parts), WEIGHTS.min_read)
        limits = note_limits(
            question, notes, self.vocabulary, self.today, self.encounters
        )
        lines: dict[tuple[str, ...], AnswerLine] = {}
        evidence: dict[str, Evidence] = {}
        nearest: dict[str, Evidence] = {}
        for part in parts:
            findings = self.finder.find(
                part, limits, asks_present=asks(part, "present"), max_read=max_read
            )
            for finding in findings[:NEAREST]:
                row = self._evidence(finding, finding.sentence)
                nearest.setdefault(row.id, row)
            chosen = _choose(part, findings)
            opening = _opening(part, chosen)
            for finding in chosen:
                line, cited = self._line(part, finding, opening)
                opening = None  # Only the first line says yes or no.
                if not evidence.keys() >= set(line.citations):
                    lines.setdefault(line.citations, line)
                for row in cited:
                    evidence.setdefault(row.id, row)
        message = ""
        if not lines:
            count = counted(len(notes.documents), "note", "notes")
            message = f"No answer found in {count}."
        return Answer(
            question=question,
            status=Status.ANSWERED if lines else Status.NOT_FOUND,
            lines=tuple(lines.values()),
            evidence=tuple(evidence.values()),
            message=message,
            related=() if lines else tuple(nearest.values()),
            remarks=tuple(
                f"Of the notes, searched: {limit}." for limit in limits.descriptions
            ),
            answered_by=self.answered_by,
        )

    def _line(
        self, part: str, finding: NoteFinding, opening: YesNo | None
    ) -> QuotedLine:
        """Return a sentence with those on its line of the note as a dated line of an answer."""
        notes = self.finder.notes
        sentences = notes.line_around(finding.place, WEIGHTS.max_words_of_line)
        position = sentences.index(finding.sentence)
        case = Case(id="chart", clinician_question=part, sentences=(finding.sentence,))
        headings = {0: finding.heading if position == 0 else ""}
        (line,) = answer_lines(case, [0], headings, None, lambda _: finding.clauses)
        texts = []
        ids = []
        evidence = []
        for sentence in sentences:
            texts.append(" ".join(sentence.text.split()))
            ids.append(sentence.id)
            evidence.append(self._evidence(finding, sentence))
        before = texts[:position]
        if opening:
            before.insert(0, opening.opening.strip())
        text = " ".join([*before, line.text, *texts[position + 1 :]])
        # Where the sentence that answers stands in the text; nowhere, if it is all of it.
        start = len(" ".join([*before, ""]))
        end = start + len(line.text)
        answering = None
        if line.answering is not None:
            answering = AnswerSpan(
                start + line.answering.start, start + line.answering.end
            )
        elif end - start < len(text):
            answering = AnswerSpan(start, end)
        # The date of its note; of a copied sentence, of the first and the last note.
        earliest, latest = notes.dates_of(finding.place)
        first, last = earliest[:10], latest[:10]
        dates = last if first == last else f"in notes from {first} to {last}"
        line = AnswerLine(
            text=f"{text} ({dates if last else 'without date'})",
            citations=tuple(ids),
            answering=answering,
            opening=line_opening(opening),
        )
        return line, evidence

    def _evidence(self, finding: NoteFinding, sentence: Sentence) -> Evidence:
        """Return a sentence of a finding's line as evidence, without a probability.

        The score of a finding is no calibrated one: it ranks sentences of many notes.
        """
        document = self.finder.notes.documents[finding.place.document]
        return Evidence.of_sentence(
            sentence, finding.heading, source=document.name, date=document.date
        )


def _opening(part: str, chosen: Sequence[NoteFinding]) -> YesNo | None:
    """Return what the findings say to a yes/no question, None where that is not certain."""
    sentences = tuple(finding.sentence for finding in chosen)
    headings = {}
    for index, finding in enumerate(chosen):
        headings[index] = finding.heading
    case = Case(id="chart", clinician_question=part, sentences=sentences)
    best = chosen[0].judgement if chosen else None
    return read_opening(part, case, range(len(chosen)), headings, best)


def _choose(part: str, findings: Sequence[NoteFinding]) -> list[NoteFinding]:
    """Return the findings to show: the best at the front, all of something by date.

    None answers unless one is about what is asked for, and gives what is asked of it.
    """
    is_for_all = asks(part, "all")
    min_score, margin, count = WEIGHTS.min_score, WEIGHTS.margin, WEIGHTS.max_lines
    if is_for_all:
        min_score, margin, count = (
            WEIGHTS.min_score_of_all,
            WEIGHTS.margin_of_all,
            WEIGHTS.max_lines_of_all,
        )
    chosen: list[NoteFinding] = []
    texts = set()
    is_answered = False
    for finding in findings:
        least = max(min_score, chosen[0].score - margin) if chosen else min_score
        if finding.score < least or len(chosen) == count:
            break
        judgement = finding.judgement
        if judgement is None or judgement.naming is Naming.OTHER:
            continue
        text = " ".join(finding.sentence.text.split())
        if judgement.mismatches <= {Mismatch.ATTRIBUTE} and text not in texts:
            chosen.append(finding)
            texts.add(text)
            is_answered |= (
                judgement.naming is not Naming.ABSENT and not judgement.mismatches
            )
    if not is_answered:
        return []
    if is_for_all:
        chosen.sort(key=lambda finding: finding.place, reverse=True)
    elif asks(part, "present"):
        chosen.sort(key=lambda finding: finding.place.document)
    return chosen


class OpenChart(PatientChart):
    """A patient's resources and notes at the time of a question.

    `given_notes` are not in the record. Where the time of the question was stated, notes and rows
    dated after it are left out.
    """

    def __init__(
        self, chart: PatientChart, given_notes: tuple[Document, ...] = ()
    ) -> None:
        super().__init__(chart.patient, chart.queries, chart.time_remark)
        opener = NoteOpener(self.record, remembered_vectors.encode)
        all_notes = opener.open(self.patient.id, *given_notes)
        day = self.now.date().isoformat()
        self.notes: ChartNotes = (
            all_notes.until(day) if self.queries.is_time_stated else all_notes
        )
        self._later_notes = len(all_notes.documents) - len(self.notes.documents)

    @cached_property
    def texts(self) -> list[int]:
        """The indices of the sentences that say something which the resources do not."""
        displays = frozenset(map(str.casefold, self.vocabulary.displays))
        own = own_texts(self.notes.texts, displays)
        return [index for index in own if self.notes.places[index]]

    @cached_property
    def note_answerer(self) -> NoteAnswerer:
        """Answers from the notes."""
        finder = NoteFinder(self.notes, encode, self.texts)
        return NoteAnswerer(finder, self.vocabulary, self.now.date(), self._encounters)

    def _encounters(self) -> Iterator[Resource]:
        return self.record.search_all("Encounter", {"patient": self.patient.id})

    def is_of_notes(self, question: str) -> bool:
        """Whether the notes speak of something that a question names."""
        texts = set(self.texts)
        for match in find_concepts(question):
            term = concept_term(match.concept)
            if not texts.isdisjoint(texts_with_term(self.notes, term)):
                return True
        return False

    def extent(self) -> str:
        """Return what there is to search, such as "204 notes, 1,050 observations"."""
        counts = self.record.counts(self.patient.id)
        extents = [counted(len(self.notes.documents), "note", "notes")]
        for name, words in _SEARCHED.items():
            if counts.get(name):
                extents.append(counted(counts[name], *words))
        return ", ".join(extents)

    def has_unknown_word(self, words: Iterable[str]) -> bool:
        """Whether one of the words is neither in the notes nor one that the encoder knows whole."""
        for text in words:
            for word in content_words(text):
                if len(tokenize_text(word)) > 1 and not self.notes.with_word(word):
                    return True
        return False

    def remarks(self) -> Iterator[str]:
        """Yield the time of the question, and which documents were not read or left out, and why."""
        if self.time_remark:
            yield self.time_remark
        if self._later_notes:
            later = counted(self._later_notes, "note", "notes")
            yield f"Left out, since dated after the question: {later}."
        reasons = Counter(document.reason for document in self.notes.unread)
        for reason, count in reasons.items():
            yield f"Documents not read: {count} ({reason})."
