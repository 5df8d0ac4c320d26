"""Measures asking on a set of questions: `archqa evaluate ask SET`.

About notes: a cited sentence hits a quote when they share half of the shorter one's characters.
Precision, recall and F1 are of all questions together that the note answers; of one that was not
answered, all groups of quotes are missed. A question that the note does not answer is abstained
from by any other status than answered.

About records and charts: right is what the regular expressions say (`_is_right`); wrong with
confidence is an answer that is not right, and "not found" for what is there; all else is refused.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from archqa.asking.answer import Answer, Evidence, Status
from archqa.asking.many import AnsweredRow, AskedRow, AskOptions, OnRow, answer_rows
from archqa.core.evidence_overlap import Offsets, is_same_evidence
from archqa.evaluation.asking_sets import NoteQuestion, RecordQuestion


class Evaluation(NamedTuple):
    """The figures of a set, and one row a question for error analysis.

    `failed` questions have no answer, because of an error; they count as neither answered nor
    abstained from, neither wrong nor refused.
    """

    figures: dict[str, float | None]
    questions: int
    failed: int
    rows: list[dict[str, Any]]


def evaluate_asking(
    questions: Sequence[NoteQuestion | RecordQuestion],
    options: AskOptions,
    on_row: OnRow = lambda *_: None,
) -> Evaluation:
    """Ask all questions and count. Raises as `answer_rows` does."""
    results = answer_rows([_asked_row(question) for question in questions], options, on_row)
    scores = []
    rows = []
    for question, result in zip(questions, results, strict=True):
        score = _score(question, result.answer)
        scores.append(score)
        rows.append(_row(question, result, score))
    figures = _figures(scores)
    failed = sum(result.answer is None for result in results)
    return Evaluation(figures, len(results), failed, rows)


def _asked_row(question: NoteQuestion | RecordQuestion) -> AskedRow:
    if isinstance(question, NoteQuestion):
        return AskedRow(question.question, question.note, None, {})
    return AskedRow(question.q, None, question.patient, {})


class NoteScore(NamedTuple):
    """The counts of one question about a note; `groups` is 0 where the note does not answer."""

    groups: int
    hit_groups: int
    cited: int
    hitting: int
    answered: bool
    hard: bool
    failed: bool


class RecordScore(NamedTuple):
    """The verdict on one question about a record; `gold_cited` is None where there is no gold."""

    right: bool
    wrong_with_confidence: bool
    refused: bool
    gold_cited: bool | None


Score = NoteScore | RecordScore


def _score(question: NoteQuestion | RecordQuestion, answer: Answer | None) -> Score:
    if isinstance(question, NoteQuestion):
        return score_note_answer(question, answer)
    return score_record_answer(question, answer)


def score_note_answer(question: NoteQuestion, answer: Answer | None) -> NoteScore:
    """Return the counts of one answer; None is a question that failed."""
    is_answered = answer is not None and answer.status is Status.ANSWERED
    cited = [_offsets(line) for line in answer.evidence] if answer and is_answered else []
    hit_groups = sum(_hits_any(cited, group) for group in question.groups)
    quotes = [place for group in question.groups for place in group]
    return NoteScore(
        groups=len(question.groups),
        hit_groups=hit_groups,
        cited=len(cited),
        hitting=sum(_hits_any([sentence], quotes) for sentence in cited),
        answered=is_answered,
        hard=question.hard,
        failed=answer is None,
    )


def _offsets(evidence: Evidence) -> Offsets:
    start = evidence.start_char_index or 0
    return start, start + len(evidence.text)


def _hits_any(sentences: Sequence[Offsets], places: Sequence[Offsets]) -> bool:
    return any(is_same_evidence(sentence, place) for sentence in sentences for place in places)


def score_record_answer(question: RecordQuestion, answer: Answer | None) -> RecordScore:
    """Return the verdict on one answer; None is a question that failed."""
    if answer is None:
        return RecordScore(False, False, False, None)
    gold_cited = _gold_cited(question, answer)
    right = _is_right(question, answer) and not (question.sources and not gold_cited)
    confident = answer.status is Status.ANSWERED
    if question.expect == "value":
        confident = confident or answer.status is Status.NOT_FOUND
    wrong = confident and not right
    return RecordScore(right, wrong, not right and not wrong, gold_cited if right else None)


def _is_right(question: RecordQuestion, answer: Answer) -> bool:
    if _matches_any(question.must_not, answer.text):
        return False
    is_answered = answer.status is Status.ANSWERED
    says_all = bool(question.must) and all(
        _matches(pattern, answer.text) for pattern in question.must
    )
    if question.expect == "decline":
        return not is_answered
    if question.expect == "none":
        return answer.status is Status.NOT_FOUND or (is_answered and says_all)
    return is_answered and says_all


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _matches_any(patterns: Sequence[str], text: str) -> bool:
    return any(_matches(pattern, text) for pattern in patterns)


def _gold_cited(question: RecordQuestion, answer: Answer) -> bool | None:
    """Whether one of the gold ids is evidence, or all sources are; None where there is no gold."""
    cited = {name for line in answer.evidence for name in (line.id, line.source)}
    if question.sources:
        return cited.issuperset(question.sources)
    return bool(cited.intersection(question.ids)) if question.ids else None


def _figures(scores: Sequence[Score]) -> dict[str, float | None]:
    note_scores = [score for score in scores if isinstance(score, NoteScore)]
    if note_scores:
        return note_figures(note_scores)
    return record_figures([score for score in scores if isinstance(score, RecordScore)])


def note_figures(scores: Sequence[NoteScore]) -> dict[str, float | None]:
    """Return the shares of a set about notes; None where there is no question of that kind."""
    answerable = [score for score in scores if score.groups]
    unanswerable = [score for score in scores if not score.groups]
    hard = [score for score in unanswerable if score.hard]
    recall = _share(
        sum(score.hit_groups for score in answerable), sum(score.groups for score in answerable)
    )
    precision = _share(
        sum(score.hitting for score in answerable), sum(score.cited for score in answerable)
    )
    return {
        "answered": _share(sum(score.answered for score in answerable), len(answerable)),
        "recall": recall,
        "precision": precision,
        "f1": _f1(precision, recall),
        "abstained": _share(sum(map(_abstained, unanswerable)), len(unanswerable)),
        "hard_abstained": _share(sum(map(_abstained, hard)), len(hard)),
    }


def record_figures(scores: Sequence[RecordScore]) -> dict[str, float | None]:
    """Return the shares of a set about records; `gold_cited` is of the right answers with a gold."""
    with_gold = [score for score in scores if score.gold_cited is not None]
    return {
        "right": _share(sum(score.right for score in scores), len(scores)),
        "wrong_with_confidence": _share(
            sum(score.wrong_with_confidence for score in scores), len(scores)
        ),
        "refused": _share(sum(score.refused for score in scores), len(scores)),
        "gold_cited": _share(sum(bool(score.gold_cited) for score in with_gold), len(with_gold)),
    }


def _abstained(score: NoteScore) -> bool:
    return not score.answered and not score.failed


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _f1(precision: float | None, recall: float | None) -> float | None:
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _row(
    question: NoteQuestion | RecordQuestion, result: AnsweredRow, score: Score
) -> dict[str, Any]:
    """Return one question for error analysis: what was asked, what is right, what was answered."""
    if isinstance(question, NoteQuestion):
        about: dict[str, Any] = {"file": question.file, "question": question.question}
        about["quotes"] = [
            [question.note[start:end] for start, end in group] for group in question.groups
        ]
    else:
        about = {"question": question.q, **question.model_dump(mode="json", exclude={"q"})}
    answer = result.answer.as_json() if result.answer else {}
    answer.pop("question", None)
    if isinstance(question, NoteQuestion):
        about["gold"] = question.gold
    if "patient" in about:
        answer.pop("patient", None)
    return {**about, "score": score._asdict(), **answer, "error": result.error}
