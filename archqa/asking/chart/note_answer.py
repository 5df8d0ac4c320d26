"""Answers from a patient's notes by the embedded engine: dated lines, each with its sentence."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date

from archqa.asking.answer import Answer, AnsweredBy, AnswerLine, AnswerSpan, Evidence, Status
from archqa.asking.chart.question_parts import asks_for_all, asks_present, denial
from archqa.asking.lines import answer_lines, texts_with_headings
from archqa.asking.yes_no import YesNo, yes_no_answer
from archqa.chart.chart_notes import Place
from archqa.chart.note_findings import MAX_READ, NoteFinder, NoteFinding
from archqa.chart.note_limits import NoteLimits, note_limits
from archqa.core.case import Case, Sentence
from archqa.engine.asked_kind import lacks_asked_kind
from archqa.fhir import Resource
from archqa.query.questions.everyday import Vocabulary

_MIN_SCORE = 1.0
"""The logit from which on a sentence answers, chosen on three charts with 71 questions to notes."""

_CLEAR_GAP, _MIN_CLEAR_SCORE, _MIN_RIVALS = 4.0, -2.0, 20
"""Where one sentence is so many logits above all others, at least so many, a lower logit is enough."""

_LACKING = 1.5
"""What a sentence loses that has no expression of the kind that is asked for (a time, a reason)."""

_MARGIN = 5.0
"""Logits below the best sentence at which another one is no longer shown."""

_MIN_SCORE_OF_ALL, _MARGIN_OF_ALL = -1.0, 6.0
"""The same where all of something is asked for ("trace", "list", "over time")."""

MAX_READ_IN_ALL, MIN_READ = 105, 35
"""Sentences that are read for the parts of a question together, and for one at least."""

_MAX_WORDS_OF_A_LINE = 70
"""Sentences on the same line of a note are shown up to so many words."""

_MAX_LINES, _MAX_LINES_OF_ALL = 3, 6
"""Sentences that are shown for one part of a question."""


class NoteAnswerer:
    """Answers the parts of a question from one patient's notes."""

    def __init__(
        self,
        finder: NoteFinder,
        vocabulary: Vocabulary,
        today: date,
        encounters: Callable[[], Iterable[Resource]] = tuple,
    ) -> None:
        self._finder = finder
        self._vocabulary = vocabulary
        self._today = today
        self._encounters = encounters

    @property
    def answered_by(self) -> AnsweredBy:
        """The engine that answers, with the digest of its network."""
        return AnsweredBy(reader="engine", engine=self._finder.fingerprint[:12])

    def quoted(self, place: Place) -> tuple[AnswerLine, list[Evidence]]:
        """Return a sentence as a line of an answer, with its date, and what it cites."""
        sentence = self._finder.notes.sentence_at(place)
        return self._line("", NoteFinding(place, sentence, "", 0.0, ()), None)

    def answer(self, question: str, parts: Sequence[str]) -> Answer:
        """Return the lines of all parts; not found if no sentence answers any."""
        lines: dict[tuple[str, ...], AnswerLine] = {}
        evidence: dict[str, Evidence] = {}
        max_read = MAX_READ if len(parts) == 1 else max(MAX_READ_IN_ALL // len(parts), MIN_READ)
        limits = note_limits(
            question, self._finder.notes, self._vocabulary, self._today, self._encounters
        )
        for part in parts:
            for line, cited in self._part(part, limits, max_read):
                if not set(line.citations) <= set(evidence):
                    lines.setdefault(line.citations, line)
                for row in cited:
                    evidence.setdefault(row.id, row)
        status = Status.ANSWERED if lines else Status.NOT_FOUND
        return Answer(
            question=question,
            status=status,
            lines=tuple(lines.values()),
            evidence=tuple(evidence.values()),
            message="" if lines else self._nothing_found(),
            remarks=tuple(f"Of the notes, searched: {limit}." for limit in limits.said),
            answered_by=self.answered_by,
        )

    def _part(
        self, part: str, limits: NoteLimits, max_read: int
    ) -> Iterator[tuple[AnswerLine, list[Evidence]]]:
        """Yield the lines that answer a part, each with what it cites; a yes/no first says so."""
        findings = self._finder.find(
            part, limits, asks_present=asks_present(part), max_read=max_read
        )
        chosen = _chosen(part, findings)
        opening = _opening(part, chosen)
        for finding in chosen:
            yield self._line(part, finding, opening)
            opening = None

    def _line(
        self, part: str, finding: NoteFinding, opening: YesNo | None
    ) -> tuple[AnswerLine, list[Evidence]]:
        """Return a sentence with those on its line of the note as a dated line of an answer."""
        sentences = self._finder.notes.line_around(finding.place, _MAX_WORDS_OF_A_LINE)
        position = sentences.index(finding.sentence)
        case = Case(id="chart", clinician_question=part, sentences=(finding.sentence,))
        headings = {0: finding.heading if position == 0 else ""}
        (line,) = answer_lines(case, [0], headings, None, lambda _: finding.clauses)
        before = [f"{opening.value}."] if opening else []
        before += [" ".join(sentence.text.split()) for sentence in sentences[:position]]
        after = [" ".join(sentence.text.split()) for sentence in sentences[position + 1 :]]
        text = " ".join([*before, line.text, *after])
        start = len(" ".join([*before, ""]))
        answering = _answering(line, start, len(text))
        evidence = [self._evidence(finding, sentence) for sentence in sentences]
        return AnswerLine(
            text=f"{text} ({self._dates(finding)})",
            citations=tuple(sentence.id for sentence in sentences),
            answering=answering,
        ), evidence

    def _dates(self, finding: NoteFinding) -> str:
        """Return the date of a sentence's note; of a copied one, of the first and the last note."""
        first, last = (time[:10] for time in self._finder.notes.dates_of(finding.place))
        if not last:
            return "without date"
        return last if first == last else f"in notes from {first} to {last}"

    def _evidence(self, finding: NoteFinding, sentence: Sentence) -> Evidence:
        """Return a sentence of a finding's line as evidence, without a probability.

        The score of a finding is no calibrated one: it ranks sentences of many notes.
        """
        document = self._finder.notes.documents[finding.place.document]
        return Evidence(
            id=sentence.id,
            kind="sentence",
            text=sentence.text,
            source=document.name,
            date=document.date,
            start_char_index=sentence.start_char_index,
            heading=finding.heading,
        )

    def _nothing_found(self) -> str:
        count = len(self._finder.notes.documents)
        if count == 1:
            return "The note does not answer this."
        return f"None of {count} notes answers this."


def _answering(line: AnswerLine, start: int, length: int) -> AnswerSpan | None:
    """Return where the sentence that answers stands in a text of `length`; None for all of it."""
    if line.answering is not None:
        return AnswerSpan(start + line.answering.start, start + line.answering.end)
    end = start + len(line.text)
    return AnswerSpan(start, end) if end - start < length else None


def _opening(part: str, chosen: Sequence[NoteFinding]) -> YesNo | None:
    """Return what the findings say to a yes/no question, None where that is not certain."""
    sentences = tuple(finding.sentence for finding in chosen)
    case = Case(id="chart", clinician_question=part, sentences=sentences)
    headings = {index: finding.heading for index, finding in enumerate(chosen)}
    verdict = yes_no_answer(part, texts_with_headings(case, range(len(chosen)), headings))
    is_doubtful = verdict is YesNo.YES and any(map(_denies, sentences))
    return None if is_doubtful else verdict


def _denies(sentence: Sentence) -> bool:
    """Whether a sentence has a word of denial, which may reach over what is asked."""
    return denial().search(sentence.text) is not None


def _chosen(part: str, findings: Sequence[NoteFinding]) -> list[NoteFinding]:
    """Return the findings to show: the best at the front, all of something by date."""
    of_all = asks_for_all(part)
    scores = {finding: _score(part, finding) for finding in findings}
    ranked = sorted(findings, key=lambda finding: -scores[finding])
    best = scores[ranked[0]] if ranked else 0.0
    margin = _MARGIN_OF_ALL if of_all else _MARGIN
    least = _MIN_SCORE_OF_ALL if of_all else _min_score([scores[one] for one in ranked])
    least = max(least, best - margin)
    kept = [finding for finding in ranked if scores[finding] >= least]
    kept = kept[: _MAX_LINES_OF_ALL if of_all else _MAX_LINES]
    if of_all:
        return sorted(kept, key=lambda finding: finding.place, reverse=True)
    if asks_present(part):
        return sorted(kept, key=lambda finding: finding.place.document)
    return kept


def _min_score(ranked: Sequence[float]) -> float:
    """Return the score from which on a sentence answers, given all scores, the best first."""
    is_clear = len(ranked) > _MIN_RIVALS and ranked[0] - ranked[1] >= _CLEAR_GAP
    return _MIN_CLEAR_SCORE if is_clear else _MIN_SCORE


def _score(part: str, finding: NoteFinding) -> float:
    """Return how well a sentence answers, less if it has no expression of the kind asked for."""
    text = f"{finding.heading} {finding.sentence.text}"
    lack = _LACKING if lacks_asked_kind(part, text) else 0.0
    return finding.score - lack
