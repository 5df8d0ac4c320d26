"""Answers from a patient's notes by the embedded engine: dated lines, each with its sentence."""

from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np

from archqa.asking.answer import Answer, AnswerLine, Evidence, Status
from archqa.asking.chart.question_parts import asks_for_all, asks_present
from archqa.asking.lines import answer_lines, texts_with_headings
from archqa.asking.yes_no import yes_no_answer
from archqa.chart.chart_notes import Place
from archqa.chart.note_findings import NoteFinder, NoteFinding
from archqa.chart.note_limits import note_limits
from archqa.core.case import Case
from archqa.engine.asked_kind import lacks_asked_kind
from archqa.query.everyday import Vocabulary

_MIN_SCORE = 1.5
"""The logit from which on a sentence answers, chosen on two charts with 60 questions."""

_LACKING = 1.5
"""What a sentence loses that has no expression of the kind that is asked for (a time, a reason)."""

_MARGIN = 4.0
"""Logits below the best sentence at which another one is no longer shown."""

_MIN_SCORE_OF_ALL, _MARGIN_OF_ALL = -1.0, 6.0
"""The same where all of something is asked for ("trace", "list", "over time")."""

_MAX_LINES, _MAX_LINES_OF_ALL = 3, 6
"""Sentences that are shown for one part of a question."""


class NoteAnswerer:
    """Answers the parts of a question from one patient's notes."""

    def __init__(self, finder: NoteFinder, vocabulary: Vocabulary, today: date) -> None:
        self._finder = finder
        self._vocabulary = vocabulary
        self._today = today

    @property
    def performer(self) -> str:
        """The engine that answers, with the digest of its network."""
        return f"embedded:{self._finder.fingerprint[:12]}"

    def quoted(self, place: Place) -> tuple[AnswerLine, Evidence]:
        """Return a sentence as a line of an answer, with its date."""
        sentence = self._finder.notes.sentence_at(place)
        finding = NoteFinding(place, sentence, "", 0.0, ())
        (line,) = self._lines("", [finding])
        return line, self._evidence(finding).model_copy(update={"probability": None})

    def answer(self, question: str, parts: Sequence[str]) -> Answer:
        """Return the lines of all parts; not found if no sentence answers any."""
        lines: dict[str, AnswerLine] = {}
        evidence: dict[str, Evidence] = {}
        for part in parts:
            for line, cited in self._part(question, part):
                lines.setdefault(cited.id, line)
                evidence.setdefault(cited.id, cited)
        status = Status.ANSWERED if lines else Status.NOT_FOUND
        return Answer(
            question=question,
            status=status,
            lines=tuple(lines.values()),
            evidence=tuple(evidence.values()),
            message="" if lines else self._nothing_found(),
            performer=self.performer,
        )

    def _part(self, question: str, part: str) -> Iterator[tuple[AnswerLine, Evidence]]:
        limits = note_limits(question, self._finder.notes, self._vocabulary, self._today)
        findings = self._finder.find(part, limits, asks_present=asks_present(part))
        chosen = _chosen(part, findings)
        for line, finding in zip(self._lines(part, chosen), chosen, strict=True):
            yield line, self._evidence(finding)

    def _lines(self, part: str, chosen: Sequence[NoteFinding]) -> list[AnswerLine]:
        """Return the line of each finding, with its dates; the first of a yes/no begins so."""
        if not chosen:
            return []
        sentences = tuple(finding.sentence for finding in chosen)
        case = Case(id="chart", clinician_question=part, sentences=sentences)
        headings = {index: finding.heading for index, finding in enumerate(chosen)}
        opening = yes_no_answer(part, texts_with_headings(case, range(len(chosen)), headings))
        lines = []
        for index, finding in enumerate(chosen):
            first = opening if index == 0 else None
            relevance = {index: finding.clauses}.__getitem__
            (line,) = answer_lines(case, [index], headings, first, relevance)
            dated = f"{line.text} ({self._dates(finding)})"
            lines.append(line.model_copy(update={"text": dated}))
        return lines

    def _dates(self, finding: NoteFinding) -> str:
        """Return the date of a sentence's note; of a copied one, of the first and the last note."""
        first, last = (time[:10] for time in self._finder.notes.dates_of(finding.place))
        if not last:
            return "without date"
        return last if first == last else f"in notes from {first} to {last}"

    def _evidence(self, finding: NoteFinding) -> Evidence:
        document = self._finder.notes.documents[finding.place.document]
        return Evidence(
            id=finding.sentence.id,
            kind="sentence",
            text=finding.sentence.text,
            source=document.name,
            date=document.date,
            start_char_index=finding.sentence.start_char_index,
            probability=round(float(1 / (1 + np.exp(-finding.score))), 4),
            heading=finding.heading,
        )

    def _nothing_found(self) -> str:
        count = len(self._finder.notes.documents)
        return (
            "The note does not answer this."
            if count == 1
            else f"None of {count} notes answers this."
        )


def _chosen(part: str, findings: Sequence[NoteFinding]) -> list[NoteFinding]:
    """Return the findings to show: the best at the front, all of something by date."""
    of_all = asks_for_all(part)
    scored = [finding._replace(score=finding.score - _lack(part, finding)) for finding in findings]
    scored.sort(key=lambda finding: -finding.score)
    least = _MIN_SCORE_OF_ALL if of_all else _MIN_SCORE
    if not scored or scored[0].score < least:
        return []
    margin = _MARGIN_OF_ALL if of_all else _MARGIN
    least = max(least, scored[0].score - margin)
    kept = [finding for finding in scored if finding.score >= least]
    kept = kept[: _MAX_LINES_OF_ALL if of_all else _MAX_LINES]
    if of_all:
        return sorted(kept, key=lambda finding: finding.place, reverse=True)
    if asks_present(part):
        return sorted(kept, key=lambda finding: finding.place.document)
    return kept


def _lack(part: str, finding: NoteFinding) -> float:
    text = f"{finding.heading} {finding.sentence.text}"
    return _LACKING if lacks_asked_kind(part, text) else 0.0
