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

from archqa.asking.answer import Answer, Evidence, Status
from archqa.asking.many import AnsweredRow, AskedRow, AskOptions, OnRow, answer_rows
from archqa.core.evidence_overlap import Offsets, is_same_evidence
from archqa.evaluation.asking_sets import NoteQuestion, RecordQuestion
from scoring.asking import NoteScore, RecordScore, asking_metrics, score_asking


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
    results = answer_rows([_asked_row(question) for question in questions], options, on_row)
    scores = []
    rows = []
    for question, result in zip(questions, results, strict=True):
        score = _score(question, result.answer)
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


def _asked_row(question: NoteQuestion | RecordQuestion) -> AskedRow:
    if isinstance(question, NoteQuestion):
        return AskedRow(question.question, question.note, None, {})
    return AskedRow(question.q, None, question.patient, {})


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
        right_status=answer is not None and is_answered == bool(question.groups),
        wrong_with_confidence=answer is not None and _is_wrong(question, answer, hit_groups),
    )


def _is_wrong(question: NoteQuestion, answer: Answer, hit_groups: int) -> bool:
    """Whether an answer about a note hits no quote, or finds nothing where there is a quote."""
    if answer.status is Status.NOT_FOUND:
        return bool(question.groups)
    return answer.status is Status.ANSWERED and not hit_groups


def _offsets(evidence: Evidence) -> Offsets:
    start = evidence.start_char_index or 0
    return start, start + len(evidence.text)


def _hits_any(sentences: Sequence[Offsets], places: Sequence[Offsets]) -> bool:
    return any(is_same_evidence(sentence, place) for sentence in sentences for place in places)


def score_record_answer(question: RecordQuestion, answer: Answer | None) -> RecordScore:
    """Return the verdict on one answer; None is a question that failed."""
    cited = _cited_names(answer)
    groups = _gold_groups(question)
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
    """The first four counts of a `RecordScore`."""

    right: bool
    wrong_with_confidence: bool
    refused: bool
    gold_cited: bool | None


def _verdict(question: RecordQuestion, answer: Answer | None) -> _Verdict:
    if answer is None:
        return _Verdict(False, False, False, None)
    gold_cited = _gold_cited(question, answer)
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


def _cited_names(answer: Answer | None) -> list[frozenset[str]]:
    """The id and the source of every evidence of an answer."""
    if answer is None or answer.status is not Status.ANSWERED:
        return []
    return [frozenset((line.id, line.source)) for line in answer.evidence]


def _gold_groups(question: RecordQuestion) -> list[frozenset[str]]:
    """Groups of gold, of which one each suffices: all sources, or any one of the ids."""
    if question.sources:
        return [frozenset((source,)) for source in question.sources]
    return [frozenset(question.ids)] if question.ids else []


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
