"""Measures asking on a set of questions: `archqa evaluate ask SET`.

About notes: a cited sentence hits a quote when they share half of the shorter one's characters.
Precision, recall and F1 are of all questions together that the note answers; of one that was not
answered, all groups of quotes are missed. A question that the note does not answer is abstained
from by any other status than answered.

About records and charts: right is what the regular expressions say (`_is_right`); wrong with
confidence is an answer that is not right, and "not found" for what is there; all else is refused.
An evidence hits the gold when its id or its source is one of the gold's.

Wrong with confidence about notes: an answer that hits no quote, and "not found" where there is one.
The verdicts are counted by the metrics of `scoring.asking`, with intervals over questions.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from archqa.asking.answer import Answer, Status
from archqa.asking.many import AnsweredRow, AskedRow, OnRow, answer_rows
from archqa.asking.question import AskOptions
from archqa.core.evidence_overlap import Offsets, is_same_evidence
from archqa.evaluation.asking_sets import NoteQuestion, RecordQuestion
from scoring.asking import NoteScore, RecordScore, asking_metrics, score_asking

Score = NoteScore | RecordScore


class Evaluation(NamedTuple):
    """The figures of a set with their intervals and signatures, and one row a question.

    A figure is None, and has no interval, where no question counts. The rows are for error analysis.
    `failed` questions have no answer, because of an error; they count as neither answered nor
    abstained from, neither wrong nor refused.
    """

    figures: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    signatures: dict[str, str]
    questions: int
    failed: int
    rows: list[dict[str, Any]]


def evaluate_asking(
    questions: Sequence[NoteQuestion | RecordQuestion],
    options: AskOptions,
    on_row: OnRow = lambda *_: None,
) -> Evaluation:
    """Ask all questions and count. Raises as `answer_rows` does."""
    asked = []
    for question in questions:
        if isinstance(question, NoteQuestion):
            asked.append(AskedRow(question.question, question.note, None, {}))
        else:
            asked.append(AskedRow(question.q, None, question.patient, {}))
    results = answer_rows(asked, options, on_row)
    scores: list[Score] = []
    rows = []
    for question, result in zip(questions, results, strict=True):
        score: Score
        if isinstance(question, NoteQuestion):
            score = score_note_answer(question, result.answer)
        else:
            score = score_record_answer(question, result.answer)
        scores.append(score)
        rows.append(_row(question, result, score))
    totals = score_asking(scores)
    return Evaluation(
        figures={name: totals.scores.get(name) for name in asking_metrics(scores)},
        intervals=totals.intervals,
        signatures=totals.signatures,
        questions=len(results),
        failed=sum(result.answer is None for result in results),
        rows=rows,
    )


def score_note_answer(question: NoteQuestion, answer: Answer | None) -> NoteScore:
    """Return the counts of one answer; None is a question that failed."""
    is_answered = answer is not None and answer.status is Status.ANSWERED
    cited: list[Offsets] = []
    for line in answer.evidence if answer and is_answered else ():
        start = line.start_char_index or 0
        cited.append((start, start + len(line.text)))
    hit_groups = sum(_hits_any(cited, group) for group in question.groups)
    quotes = [place for group in question.groups for place in group]
    # Nothing found where there is a quote, and an answer that hits none.
    is_wrong = answer is not None and answer.status is Status.NOT_FOUND and bool(question.groups)
    return NoteScore(
        groups=len(question.groups),
        hit_groups=hit_groups,
        cited=len(cited),
        hitting=sum(_hits_any([sentence], quotes) for sentence in cited),
        answered=is_answered,
        hard=question.hard,
        failed=answer is None,
        right_status=answer is not None and is_answered == bool(question.groups),
        wrong_with_confidence=is_wrong or (is_answered and not hit_groups),
    )


def _hits_any(sentences: Sequence[Offsets], places: Sequence[Offsets]) -> bool:
    return any(is_same_evidence(sentence, place) for sentence in sentences for place in places)


def score_record_answer(question: RecordQuestion, answer: Answer | None) -> RecordScore:
    """Return the verdict on one answer; None is a question that failed."""
    cited: list[frozenset[str]] = []
    if answer is not None and answer.status is Status.ANSWERED:
        cited = [frozenset((line.id, line.source)) for line in answer.evidence]
    # One of each group suffices: all sources are needed, or any one of the ids.
    groups = [frozenset((source,)) for source in question.sources]
    if question.ids and not question.sources:
        groups = [frozenset(question.ids)]
    gold = frozenset().union(*groups)
    verdict = _verdict(question, answer)
    return RecordScore(
        *verdict,
        right_status=answer is not None and _is_right_status(question, answer, verdict.right),
        groups=len(groups),
        hit_groups=sum(any(names & group for names in cited) for group in groups),
        cited=len(cited),
        hitting=sum(bool(names & gold) for names in cited),
    )


class _Verdict(NamedTuple):
    """The first four counts of a `RecordScore`.

    `gold_cited`: whether one of the gold ids is evidence, or all sources are; None without gold.
    """

    right: bool
    wrong_with_confidence: bool
    refused: bool
    gold_cited: bool | None


def _verdict(question: RecordQuestion, answer: Answer | None) -> _Verdict:
    if answer is None:
        return _Verdict(False, False, False, None)
    names = {name for line in answer.evidence for name in (line.id, line.source)}
    gold_cited: bool | None = None
    if question.sources:
        gold_cited = names.issuperset(question.sources)
    elif question.ids:
        gold_cited = bool(names.intersection(question.ids))
    right = _is_right(question, answer) and not (question.sources and not gold_cited)
    confident = answer.status is Status.ANSWERED
    if question.expect == "value":
        confident = confident or answer.status is Status.NOT_FOUND
    wrong = confident and not right
    return _Verdict(right, wrong, not right and not wrong, gold_cited if right else None)


def _is_right_status(question: RecordQuestion, answer: Answer, right: bool) -> bool:
    """Whether the status is the expected one, whatever the words and the evidence.

    Where nothing is there, an answer that says so in the set's words is as good as "not found".
    """
    if question.expect == "value":
        return answer.status is Status.ANSWERED
    if question.expect == "decline":
        return answer.status is not Status.ANSWERED
    return answer.status is Status.NOT_FOUND or right


def _is_right(question: RecordQuestion, answer: Answer) -> bool:
    if any(_matches(pattern, answer.text) for pattern in question.must_not):
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
