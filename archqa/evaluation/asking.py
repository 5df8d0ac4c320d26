"""Measures asking on a set of questions: `archqa evaluate ask SET`.

About notes: a cited sentence hits a quote when they share half of the shorter one's characters.
Precision, recall and F1 are of all questions together that the note answers; of one that was not
answered, all groups of quotes are missed. A question that the note does not answer is abstained
from by any other status than answered.

About records and charts: right is what the regular expressions say (`_is_right`); wrong with
confidence is an answer that is not right, and "not found" for what is there; all else is refused.
An evidence hits the gold when its id or its source is one of the gold's.

Right about notes: an answer that hits a quote and does not open with the wrong one of Yes and No,
or none where there is no quote. Wrong with confidence: an answer that is not right, and none where
there is a quote, unless the passage is among the nearest ones. Twins are two notes with one
question, of which often only one answers it.
The verdicts are counted by the metrics of `scoring.asking`, with intervals over questions.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator

from archqa.asking.answer import Answer, Evidence, Status
from archqa.asking.many import AnsweredRow, AskedRow, OnRow, answer_rows
from archqa.asking.question import AskOptions
from archqa.core.value import FrozenModel, JsonObject
from archqa.errors import CallerError, InputError
from archqa.safety.files import storage_errors
from scoring.asking import NoteScore, RecordScore, asking_metrics, score_asking

Offsets = tuple[int, int]
"""Characters of a text from the first to the one after the last."""

MIN_COVERAGE = 0.5
"""The share of the shorter of two stretches that they must have in common."""


def is_same_evidence(first: Offsets, second: Offsets) -> bool:
    """Whether two stretches share half of the shorter one's characters."""
    shared = min(first[1], second[1]) - max(first[0], second[0])
    shorter = min(first[1] - first[0], second[1] - second[0])
    return shared >= MIN_COVERAGE * shorter


FORMAT_HINT = (
    'A set is a list of {"file", "items"} about notes, of {"id", "twin", "note", "q", "expect"} with '
    'their notes, or of {"q", "patient", "must"} about records.'
)
NOTES_HINT = 'The notes are a JSON list of {"file", "text"}, also gzipped.'

Expected = Literal["value", "none", "decline"]


class NoteQuestion(NamedTuple):
    """A question about a note. `groups` are of places in it, of which one each suffices.

    No group: the note does not answer; `hard` if the topic occurs in it. `openings` are those of
    Yes and No with which the answer may begin. `twin` is the `file` of the other question of a pair.
    """

    question: str
    file: str
    note: str
    groups: tuple[tuple[Offsets, ...], ...]
    hard: bool
    gold: str
    openings: tuple[str, ...] = ("yes", "no")
    kind: str = ""
    twin: str = ""


class RecordQuestion(FrozenModel):
    """A question about a patient of a record, or of a chart where it has `sources`."""

    q: str
    patient: str
    kind: str = ""
    expect: Expected = "value"
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()
    gold: str = ""

    @field_validator("must", "must_not")
    @classmethod
    def _regular_expressions(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error:
                raise ValueError("is no regular expression") from None
        return patterns


Questions = tuple[NoteQuestion, ...] | tuple[RecordQuestion, ...]
"""All questions of a set."""


class _Item(BaseModel):
    q: str
    kind: Literal["answerable", "unanswerable"]
    quotes: tuple[tuple[str, ...], ...] = ()
    hard: bool = False
    answer: str = ""
    why: str = ""


class _NoteItems(BaseModel):
    file: str
    items: tuple[_Item, ...]


class _TwinItem(BaseModel):
    id: str
    twin: str
    note: str
    q: str
    expect: Literal["answered", "not_found"]
    opens: Literal["yes", "no"] | None = None
    quote: str | None = None
    gold: str = ""
    kind: str = ""


class _NoteText(BaseModel):
    file: str
    text: str


def read_set(path: Path, notes: Path | None) -> Questions:
    """Return the questions of a set, with the notes that they are about.

    Raises `InputError` with all mistakes, `CallerError` if a set about notes comes without them.
    """
    content = _read_json(path, FORMAT_HINT)
    if isinstance(content[0], dict) and "note" in content[0]:
        return _twin_questions(path, content)
    is_about_notes = isinstance(content[0], dict) and "items" in content[0]
    if not is_about_notes:
        rows = []
        for row in content:
            if (
                isinstance(row, dict)
                and "expect" not in row
                and row.get("kind") == "none"
            ):
                row = {**row, "expect": "decline"}
            rows.append(row)
        questions: tuple[RecordQuestion, ...] = _validated(
            path, rows, tuple[RecordQuestion, ...], FORMAT_HINT
        )
        return questions
    if notes is None:
        raise CallerError(
            "The set is about notes.\nName the file of their texts with --notes."
        )
    texts = {}
    for note in _validated(
        notes, _read_json(notes, NOTES_HINT), tuple[_NoteText, ...], NOTES_HINT
    ):
        texts[note.file] = note.text
    return _note_questions(path, content, texts)


def _read_json(path: Path, hint: str) -> list[Any]:
    with storage_errors(path):
        content = path.read_bytes()
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        rows = json.loads(content)
    except (OSError, EOFError, ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not rows:
        raise InputError(path, [": is no JSON list."], hint) from None
    return rows


def _validated(path: Path, content: Any, expected: Any, hint: str) -> Any:
    try:
        return TypeAdapter(expected).validate_python(content)
    except ValidationError as error:
        mistakes = []
        for mistake in error.errors(
            include_url=False, include_input=False, include_context=False
        ):
            place = ".".join(str(step) for step in mistake["loc"])
            mistakes.append(
                f": {place}: {mistake['msg'].removeprefix('Value error, ')}"
            )
        raise InputError(path, mistakes, hint) from None


def _note_questions(
    path: Path, content: list[Any], texts: dict[str, str]
) -> tuple[NoteQuestion, ...]:
    questions = []
    mistakes = []
    for note in _validated(path, content, tuple[_NoteItems, ...], FORMAT_HINT):
        if note.file not in texts:
            mistakes.append(f": the notes have no {note.file}.")
            continue
        for number, item in enumerate(note.items, start=1):
            question = _note_question(note.file, texts[note.file], item)
            if not all(question.groups) or bool(question.groups) != (
                item.kind == "answerable"
            ):
                mistakes.append(
                    f": {note.file}, question {number}: a quote is not in the note."
                )
            questions.append(question)
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return tuple(questions)


def _twin_questions(path: Path, content: list[Any]) -> tuple[NoteQuestion, ...]:
    questions = []
    mistakes = []
    for item in _validated(path, content, tuple[_TwinItem, ...], FORMAT_HINT):
        places = tuple(_places(item.quote or "", item.note))
        if bool(places) != (item.expect == "answered"):
            mistakes.append(f": {item.id}: its quote is not in the note.")
        questions.append(
            NoteQuestion(
                item.q,
                item.id,
                item.note,
                groups=(places,) if places else (),
                hard=not places,
                gold=item.gold,
                openings=(item.opens,) if item.opens else (),
                kind=item.kind,
                twin=item.twin,
            )
        )
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return tuple(questions)


def _note_question(file: str, text: str, item: _Item) -> NoteQuestion:
    groups = []
    for quotes in item.quotes:
        places: list[Offsets] = []
        for quote in quotes:
            places += _places(quote, text)
        groups.append(tuple(places))
    return NoteQuestion(
        item.q, file, text, tuple(groups), item.hard, item.answer or item.why
    )


def _places(quote: str, text: str) -> Iterator[Offsets]:
    """Yield every place of a quote in a text."""
    start = text.find(quote) if quote else -1
    while start >= 0:
        yield start, start + len(quote)
        start = text.find(quote, start + 1)


Score = NoteScore | RecordScore


class Evaluation(NamedTuple):
    """The figures of a set with their intervals and signatures, and one row a question.

    A figure is None, and has no interval, where no question counts. The rows are for error analysis.
    `failed` questions have no answer, because of an error; they count as neither answered nor
    abstained from, neither wrong nor refused. `by_kind` has the shares right and wrong of the
    questions of each kind.
    """

    figures: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    signatures: dict[str, str]
    questions: int
    failed: int
    by_kind: dict[str, dict[str, float]]
    rows: list[JsonObject]


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
    right_by_file: dict[str, bool] = {}
    rows = []
    for question, result in zip(questions, results, strict=True):
        score: Score
        if isinstance(question, NoteQuestion):
            score = score_note_answer(question, result.answer)
            if question.twin in right_by_file:
                both_right = score.right and right_by_file[question.twin]
                score = score._replace(both_right=both_right)
            right_by_file[question.file] = score.right
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
        by_kind=_by_kind(questions, scores),
        rows=rows,
    )


def _by_kind(
    questions: Sequence[NoteQuestion | RecordQuestion], scores: Sequence[Score]
) -> dict[str, dict[str, float]]:
    import pandas  # Slow to import.

    rows = []
    for question, score in zip(questions, scores, strict=True):
        if question.kind:
            rows.append((question.kind, score.right, score.wrong_with_confidence))
    columns = ["kind", "right", "wrong_with_confidence"]
    of_kind = pandas.DataFrame(rows, columns=columns).groupby("kind")
    table = of_kind.mean()
    table.insert(0, "questions", of_kind.size())
    return {str(kind): dict(row) for kind, row in table.iterrows()}


_OPENING = re.compile(r"(yes|no)\s*[.:]", re.IGNORECASE)
_ABSENCES = {Status.NOT_FOUND, Status.DECLINED}


def score_note_answer(question: NoteQuestion, answer: Answer | None) -> NoteScore:
    """Return the counts of one answer; None is a question that failed."""
    is_answered = answer is not None and answer.status is Status.ANSWERED
    cited = _places_of(answer.evidence) if answer and is_answered else []
    hit_groups = sum(_hits_any(cited, group) for group in question.groups)
    quotes = [place for group in question.groups for place in group]
    opening = _OPENING.match(answer.lines[0].text) if answer and answer.lines else None
    right_status = answer is not None and is_answered == bool(question.groups)
    right = right_status and bool(hit_groups) == bool(question.groups)
    if opening and opening[1].lower() not in question.openings:
        right = right and not is_answered
    is_absence = answer is not None and answer.status in _ABSENCES
    is_shown = answer is not None and _hits_any(_places_of(answer.related), quotes)
    return NoteScore(
        groups=len(question.groups),
        hit_groups=hit_groups,
        cited=len(cited),
        hitting=sum(_hits_any([sentence], quotes) for sentence in cited),
        answered=is_answered,
        hard=question.hard,
        failed=answer is None,
        right_status=right_status,
        right=right,
        wrong_with_confidence=not right
        and (is_answered or (is_absence and not is_shown)),
    )


def _places_of(evidence: Iterable[Evidence]) -> list[Offsets]:
    places = []
    for sentence in evidence:
        start = sentence.start_char_index or 0
        places.append((start, start + len(sentence.text)))
    return places


def _hits_any(sentences: Sequence[Offsets], places: Sequence[Offsets]) -> bool:
    return any(
        is_same_evidence(sentence, place) for sentence in sentences for place in places
    )


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
    hit_groups = sum(any(names & group for names in cited) for group in groups)
    cites_gold = hit_groups == len(groups)
    right = answer is not None and _is_right(question, answer)
    if question.sources and not cites_gold:
        right = False
    confident = {Status.ANSWERED}
    if question.expect == "value":
        confident.add(Status.NOT_FOUND)
    wrong = answer is not None and not right and answer.status in confident
    return RecordScore(
        right=right,
        wrong_with_confidence=wrong,
        refused=answer is not None and not right and not wrong,
        gold_cited=cites_gold if right and groups and cited else None,
        right_status=answer is not None and _is_right_status(question, answer, right),
        groups=len(groups),
        hit_groups=hit_groups,
        cited=len(cited),
        hitting=sum(bool(names & gold) for names in cited),
    )


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
) -> JsonObject:
    """Return one question for error analysis: what was asked, what is right, what was answered."""
    if isinstance(question, NoteQuestion):
        about: JsonObject = {"file": question.file, "question": question.question}
        about["quotes"] = [
            [question.note[start:end] for start, end in group]
            for group in question.groups
        ]
    else:
        about = {
            "question": question.q,
            **question.model_dump(mode="json", exclude={"q"}),
        }
    answer = result.answer.as_json() if result.answer else {}
    answer.pop("question", None)
    if isinstance(question, NoteQuestion):
        about["gold"] = question.gold
    if "patient" in about:
        answer.pop("patient", None)
    return {**about, "score": score._asdict(), **answer, "error": result.error}
