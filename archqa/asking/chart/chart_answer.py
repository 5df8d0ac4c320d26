"""One answer from the resources and the notes of a chart, each fact once."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Literal, NamedTuple

from archqa.asking.answer import Answer, AnsweredBy, AnswerLine, Evidence, Status
from archqa.asking.asked_words import blanked
from archqa.asking.chart.ask_chart import AGENT, GIVEN_NOTE, PatientChart, answer_from_resources
from archqa.asking.chart.note_answer import OpenChart
from archqa.asking.chart.question_parts import (
    is_advice,
    is_bare,
    may_be_stated,
    question_parts,
    reports,
)
from archqa.asking.chart.statement_conflicts import note_conflicts
from archqa.asking.judgements import is_judgement
from archqa.asking.models import ModelBackends, asks_model, model_name
from archqa.asking.question import Question
from archqa.chart.note_index import encode
from archqa.chart.search import content_words, without_carrying_words
from archqa.core.id_lists import list_ids
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import InputError
from archqa.fhir import FhirError
from archqa.notes.documents import Document
from archqa.query.everyday import Vocabulary
from archqa.query.everyday.background import DECIDING
from archqa.query.everyday.marking import mark
from archqa.terminology.concepts import find_concepts
from archqa.terminology.people import body_part_spans
from archqa.terminology.words import extract_numbers


class JudgedParts(NamedTuple):
    """The parts of a question that can be answered, and those that ask for a judgement."""

    askable: tuple[str, ...]
    judgements: tuple[str, ...]


def judged_parts(parts: Sequence[str]) -> JudgedParts:
    """Return which parts can be answered from notes.

    What somebody advised or wants can be, also what is allowed ("can he have it again?").
    """
    askable: list[str] = []
    judgements: list[str] = []
    for part in parts:
        follows_judgement = is_bare(part) and bool(judgements) and not askable
        if follows_judgement or _is_judgement(part):
            judgements.append(part)
        else:
            askable.append(part)
    return JudgedParts(tuple(askable), tuple(judgements))


def _is_judgement(part: str) -> bool:
    if is_advice(part):
        return True
    return is_judgement(part) and not (reports(part) or may_be_stated(part))


def declines_to_judge(answer: Answer) -> bool:
    """Whether the resources' answer declines a judgement, not what only notes could tell."""
    return answer.status is Status.DECLINED and answer.ground != "notes"


_ISO_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_US_DATE = re.compile(r"\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b")


class Lines(NamedTuple):
    """Lines of an answer with all evidence that they cite."""

    lines: tuple[AnswerLine, ...]
    evidence: tuple[Evidence, ...]


def joined_lines(answers: Sequence[Answer]) -> Lines:
    """Return the lines of several answers with their evidence.

    A line that cites nothing beyond the lines before it says the same in other words.
    """
    lines: list[AnswerLine] = []
    cited: set[str] = set()
    for line in chain.from_iterable(answer.lines for answer in answers):
        if not line.citations or not cited.issuperset(line.citations):
            lines.append(line)
        cited.update(line.citations)
    evidence: dict[str, Evidence] = {}
    for row in chain.from_iterable(answer.evidence for answer in answers):
        evidence.setdefault(row.id, row)
    return Lines(tuple(lines), tuple(evidence.values()))


def reconciled(notes: Lines, resources: Lines) -> Lines:
    """Return one list of lines: a value that both have of the same day is one line that cites both."""
    dates = {row.id: row.date[:10] for row in (*notes.evidence, *resources.evidence)}
    own_lines: list[AnswerLine] = []
    also_cited: dict[int, tuple[str, ...]] = {}
    for line in notes.lines:
        same = next(
            (i for i, other in enumerate(resources.lines) if _same(line, other, dates)), None
        )
        if same is None:
            own_lines.append(line)
        else:
            also_cited[same] = (*also_cited.get(same, ()), *line.citations)
    merged = []
    for index, line in enumerate(resources.lines):
        citations = tuple(dict.fromkeys((*line.citations, *also_cited.get(index, ()))))
        merged.append(line.model_copy(update={"citations": citations}))
    return Lines((*own_lines, *merged), (*notes.evidence, *resources.evidence))


def _same(first: AnswerLine, second: AnswerLine, dates: dict[str, str]) -> bool:
    """Whether two lines give one value of one thing on one day."""
    days = [{dates.get(name, "") for name in line.citations} - {""} for line in (first, second)]
    if not days[0] & days[1]:
        return False
    names = [{match.concept.name for match in find_concepts(line.text)} for line in (first, second)]
    values = [_values(line.text) for line in (first, second)]
    return bool(names[0] & names[1]) and bool(values[1]) and values[1] <= values[0]


def _values(text: str) -> frozenset[str]:
    """Return the numbers of a text that are no dates."""
    return extract_numbers(_US_DATE.sub(" ", _ISO_DATE.sub(" ", text)))


AskRecord = Callable[[str], Answer]
"""Answers a question in everyday words from the resources."""

_LIMITING = frozenset(
    ("test", "extreme", "summary", "flag", "class", "per", "stay", "outcome", "trend", "judgement")
)
"""Kinds of marks (`archqa.query.everyday.marks`) that limit what is asked of a thing."""

_QUESTIONS = {
    "measurement": "{} results",
    "drug": "{} orders",
    "drug_class": "{} orders",
    "condition": "{} diagnosis",
    "vaccine": "{} vaccinations",
    "procedure": "{} procedures",
}
"""The simple question about a concept of each kind."""

_MAX_NAMED, _MAX_LINES = 3, 4
"""Names of a question that are asked for, and lines on each."""


def related_facts(
    question: str, ask: AskRecord, vocabulary: Vocabulary, today: date
) -> list[Answer]:
    """Return what the resources hold on each thing that a question names, in its time.

    Answers are answered or not found; what the grammar cannot ask is left out. Of a name that means
    several things (digoxin: a drug and a level) those count which the resources have.
    """
    answers: list[Answer] = []
    for questions in related_questions(question, vocabulary, today):
        all_meanings = [ask(simple) for simple in questions]
        recorded = [answer for answer in all_meanings if answer.status is Status.ANSWERED]
        absent = [answer for answer in all_meanings if answer.status is Status.NOT_FOUND]
        answers += [_shortened(answer) for answer in recorded] or absent[:1]
    return answers


def related_questions(question: str, vocabulary: Vocabulary, today: date) -> list[tuple[str, ...]]:
    """Return simple questions for each thing that a question names, three at most."""
    times = [each.text for each in mark(question, vocabulary, today).of("span")]
    time = times[0] if len(times) == 1 else ""
    named: dict[tuple[str, ...], None] = {}
    for questions in _named(question):
        named[tuple(" ".join(f"{words} {time}".split()) for words in questions)] = None
    return list(named)[:_MAX_NAMED]


def _named(question: str) -> Iterator[list[str]]:
    """Yield for each name the simple questions about its meanings."""
    of_body = body_part_spans(question)
    kinds: dict[tuple[int, int], dict[str, None]] = {}
    for match in find_concepts(question):
        is_part = any(start <= match.start and match.end <= end for start, end in of_body)
        if not is_part:  # "The kidneys" are more than their laboratory values.
            kinds.setdefault((match.start, match.end), {})[match.concept.kind] = None
    for (start, end), of_name in kinds.items():
        yield [_QUESTIONS[kind].format(question[start:end]) for kind in of_name]


def _shortened(answer: Answer) -> Answer:
    """Return an answer with its newest lines; how many others there are is said."""
    left_out = len(answer.lines) - _MAX_LINES
    if left_out <= 0:
        return answer
    dates = {row.id: row.date for row in answer.evidence}
    newest_first = sorted(answer.lines, key=lambda line: _newest(line, dates), reverse=True)
    kept = [line for line in answer.lines if line in newest_first[:_MAX_LINES]]
    cited = {name for line in kept for name in line.citations}
    remark = f"{left_out} earlier lines on this are left out: ask for them by name."
    return answer.model_copy(
        update={
            "lines": tuple(kept),
            "evidence": tuple(row for row in answer.evidence if row.id in cited),
            "remarks": (*answer.remarks, remark),
        }
    )


def _newest(line: AnswerLine, dates: Mapping[str, str]) -> str:
    return max((dates.get(name, "") for name in line.citations), default="")


def is_all_named(question: str, vocabulary: Vocabulary, today: date) -> bool:
    """Whether concepts, times and words that carry nothing of their own are all of a question."""
    clause = mark(question, vocabulary, today)
    if clause.words & DECIDING or any(each.kind in _LIMITING for each in clause.marks):
        return False
    spans = [(match.start, match.end) for match in find_concepts(question)]
    rest = blanked(question, spans)
    for each in clause.of("span"):
        rest = re.sub(re.escape(each.text), " ", rest, flags=re.IGNORECASE)
    return not content_words(without_carrying_words(rest))


_VERDICT = re.compile(r"^(?:Yes|No)[:,.] ")
_NOT_JUDGED = "This asks for a clinical judgement or a prediction, which is not made."
_ON_THIS = "What the chart holds on this:"
_RECORD_HOLDS = "What it holds on this:"


async def answer_with_notes(
    question: Question, patient_chart: PatientChart, models: ModelBackends
) -> Answer:
    """Return the answer of resources and notes: by a model that looks up both, or by the engine.

    Raises as `answer_from_chart`.
    """
    chart = await asyncio.to_thread(_opened, question, patient_chart)
    if not chart.notes.documents:
        answer = await answer_from_resources(question, chart, models)
    elif "pipeline" in question.settings.typed_names:
        record_answer = await answer_from_resources(question, chart, models)
        answer = await asyncio.to_thread(_answer_by_engine, question, chart, record_answer)
    elif asks_model(question.settings, AGENT, question.options.scripted):
        answer = await _answer_by_agent(question, chart, models)
    else:
        answer = await asyncio.to_thread(_answer_by_engine, question, chart)
    remarks = dict.fromkeys([*answer.remarks, *chart.remarks()])
    return answer.model_copy(update={"remarks": tuple(remarks)})


def _opened(question: Question, chart: PatientChart) -> OpenChart:
    note = question.note or ""
    given = (Document(GIVEN_NOTE, "", "", note),) if note.strip() else ()
    try:
        return OpenChart(chart, given)
    except FhirError as error:
        raise InputError(question.options.record or "", [f": {error}"]) from None


def _answer_by_engine(
    question: Question, chart: OpenChart, record_answer: Answer | None = None
) -> Answer:
    if record_answer is None:
        record_answer = chart.ask_record(question.text, question.options.context)
    has_note = bool(question.note and question.note.strip())
    answer = chart_answer(question.text, record_answer, chart, ask_notes=has_note)
    question.options.on_step(Step(agent="note_search", backend="embedded"))
    return answer


async def _answer_by_agent(question: Question, chart: OpenChart, models: ModelBackends) -> Answer:
    """Return the answer of a model that looks up both.

    What the resources answer whole, and no note speaks of, needs no model.
    """
    if not (question.note and question.note.strip()):
        context = question.options.context
        answer = await asyncio.to_thread(chart.ask_record, question.text, context)
        is_answered = answer.status is Status.ANSWERED
        if is_answered and not await asyncio.to_thread(chart.is_of_notes, question.text):
            return answer
    from archqa.asking.chart_agent import CHART_AGENT, ChartToAsk, answer_chart_by_model

    backends = models.open(CHART_AGENT)
    usages: list[Usage] = []

    def on_step(step: Step) -> None:
        usages.append(step.usage)
        question.options.on_step(step)

    shown = ChartToAsk(
        chart.notes,
        chart.queries,
        encode,
        chart.now,
        texts=chart.texts,
        background=question.options.context,
    )
    answer = await answer_chart_by_model(question.text, shown, backends.context(on_step))
    changes = {
        "remarks": (*answer.remarks, *backends.remarks),
        "usage": sum_usage(usages),
        "answered_by": AnsweredBy(reader="model", model=model_name(backends)),
    }
    return answer.model_copy(update=changes)


def chart_answer(
    question: str, record_answer: Answer, chart: OpenChart, *, ask_notes: bool = False
) -> Answer:
    """Return the answer of both halves, given that of the resources.

    What the resources answer whole is not looked for in notes, unless `ask_notes`; but a note that
    says otherwise is shown.
    """
    asking = _Asking(question, record_answer, chart)
    if record_answer.status is Status.ANSWERED and not ask_notes:
        return asking.answer_of_resources()
    judged = judged_parts(question_parts(question).parts)
    if not judged.askable:
        return asking.declined(judged.judgements)
    return asking.answer_of_both(judged.askable, judged.judgements)


class _Asking:
    """One question to one chart, with the answer of its resources."""

    def __init__(self, question: str, record_answer: Answer, chart: OpenChart) -> None:
        self._question = question
        self._of_record = record_answer
        self._chart = chart

    def answer_of_resources(self) -> Answer:
        """Return the resources' answer with the sentences that say otherwise or later."""
        conflicts = note_conflicts(
            self._question, self._of_record, self._chart.notes, self._chart.texts
        )
        if not conflicts:
            return self._of_record
        answerer = self._chart.note_answerer
        quoted = [answerer.quoted(conflict.place) for conflict in conflicts]
        names = list_ids(dict.fromkeys(conflict.name for conflict in conflicts))
        remark = f"On {names}, notes say otherwise or later than the resources: both are shown."
        own_lines = map(_without_verdict, self._of_record.lines)
        cited = chain.from_iterable(evidence for _, evidence in quoted)
        changes = {
            "lines": (*own_lines, *(line for line, _ in quoted)),
            "evidence": (*self._of_record.evidence, *cited),
            "remarks": (remark, *self._of_record.remarks),
            "answered_by": _joined([self._of_record.answered_by, answerer.answered_by]),
        }
        return self._of_record.model_copy(update=changes)

    def declined(self, judgements: Sequence[str]) -> Answer:
        """Return that no judgement is made, with what resources and notes hold on the matter."""
        note_answer = self._chart.note_answerer.answer(self._question, judgements)
        related = [note_answer]
        message = f"{_NOT_JUDGED} {_ON_THIS}"
        if self._of_record.status is Status.DECLINED:
            related.insert(0, self._of_record)
            message = f"{_own_message(self._of_record)} {_ON_THIS}"
        lines = joined_lines(related)
        if not lines.lines:
            message = message.removesuffix(f" {_ON_THIS}")
        return Answer(
            question=self._question,
            status=Status.DECLINED,
            lines=lines.lines,
            evidence=lines.evidence,
            message=message,
            query=related[0].query,
            remarks=related[0].remarks,
            answered_by=_joined([part.answered_by for part in related]),
        )

    def answer_of_both(self, parts: Sequence[str], judgements: Sequence[str]) -> Answer:
        """Return the notes' answer to the parts, with what the resources hold on them."""
        note_answer = self._chart.note_answerer.answer(self._question, parts)
        facts = self._facts(parts)
        status = self._status(note_answer, facts)
        holding = [answer for answer in facts if answer.lines]
        if status is Status.NOT_FOUND:  # What only names the same things answers nothing.
            holding = [answer for answer in holding if answer is self._of_record]
        lines = reconciled(joined_lines([note_answer]), joined_lines(holding))
        is_understood = status is not Status.NOT_UNDERSTOOD
        return Answer(
            question=self._question,
            status=status,
            lines=lines.lines,
            evidence=lines.evidence,
            message=self._message(status, lines, note_answer, facts),
            query=self._query(holding),
            not_understood=() if is_understood else self._of_record.not_understood,
            remarks=tuple(self._remarks(status, judgements, [note_answer, *holding])),
            answered_by=_joined([part.answered_by for part in (note_answer, *holding)]),
        )

    def _facts(self, parts: Sequence[str]) -> list[Answer]:
        """Return what the resources hold on the parts of a question that they do not answer whole."""
        if self._of_record.status in (Status.ANSWERED, Status.NOT_FOUND):
            return [self._of_record]
        of_parts = [self._chart.ask_record(part) for part in parts] if len(parts) > 1 else []
        answered = [answer for answer in of_parts if answer.status is Status.ANSWERED]
        chart = self._chart
        related = related_facts(
            self._question, chart.ask_record, chart.vocabulary, chart.now.date()
        )
        return [*answered, *related]

    def _status(self, note_answer: Answer, facts: Sequence[Answer]) -> Status:
        """Return the status of both halves.

        What cannot be read as a query is not found where the resources have nothing of what the
        question names, or no such name: the notes were searched by all its words. But a word that
        is neither in the notes nor an ordinary one may be a slip of the pen.
        """
        if Status.ANSWERED in (note_answer.status, self._of_record.status):
            return Status.ANSWERED
        if declines_to_judge(self._of_record):
            return Status.DECLINED
        if self._of_record.status is not Status.NOT_UNDERSTOOD:
            return Status.NOT_FOUND
        if any(fact.status is Status.ANSWERED for fact in facts):
            return Status.ANSWERED if self._is_answered_by(facts) else Status.NOT_UNDERSTOOD
        if self._chart.has_unknown_word(self._of_record.not_understood):
            return Status.NOT_UNDERSTOOD
        return Status.NOT_FOUND

    def _is_answered_by(self, facts: Sequence[Answer]) -> bool:
        """Whether the things that are asked about are all that a question says, and all are recorded."""
        is_recorded = all(fact.status is Status.ANSWERED for fact in facts)
        chart = self._chart
        return is_recorded and is_all_named(self._question, chart.vocabulary, chart.now.date())

    def _message(
        self, status: Status, lines: Lines, note_answer: Answer, facts: Sequence[Answer]
    ) -> str:
        if status is Status.ANSWERED:
            return ""
        if status is Status.NOT_FOUND:
            absent = [fact.message for fact in facts if fact.status is Status.NOT_FOUND]
            if self._of_record.status is not Status.NOT_UNDERSTOOD:
                absent.insert(0, _own_message(self._of_record))
            if not absent:
                return f"Neither notes nor resources answer this: {self._chart.extent()} searched."
            return " ".join(dict.fromkeys([*absent, note_answer.message]))
        lead = f" {_ON_THIS}" if lines.lines else ""
        return f"{_own_message(self._of_record)} {note_answer.message}{lead}"

    def _query(self, holding: Sequence[Answer]) -> str | None:
        queries = dict.fromkeys(answer.query for answer in holding if answer.query)
        return self._of_record.query or "\n".join(queries) or None

    def _remarks(
        self, status: Status, judgements: Sequence[str], parts: Sequence[Answer]
    ) -> Iterator[str]:
        """Yield what was left out, why the resources do not answer, and the remarks of the parts."""
        yield from (f"Not answered, a judgement: “{part}”" for part in judgements)
        own = self._of_record
        if status is Status.ANSWERED and own.status is not status:
            if own.status is Status.NOT_UNDERSTOOD and len(parts) > 1:
                yield "The resources were asked for what the question names, not for all its words."
            else:
                yield f"The resources do not answer: {_own_message(own)}"
        yield from dict.fromkeys(chain(own.remarks, *(part.remarks for part in parts)))


def _without_verdict(line: AnswerLine) -> AnswerLine:
    """Return a line without "Yes:" or "No:": that is what notes say otherwise."""
    return line.model_copy(update={"text": _VERDICT.sub("", line.text), "answering": None})


def _own_message(answer: Answer) -> str:
    """Return the message of an answer without the lead to its lines."""
    return answer.message.removesuffix(_RECORD_HOLDS).strip()


def _joined(parts: Sequence[AnsweredBy]) -> AnsweredBy:
    """Return who answered the parts of an answer: the engine reads what notes are searched for."""
    engines = [part.engine for part in parts if part.engine is not None]
    models = [part for part in parts if part.reader == "model"]
    readers = {part.reader for part in parts}
    if models:
        return models[0].model_copy(update={"engine": next(iter(engines), None)})
    reader: Literal["grammar", "engine"] = "grammar" if "grammar" in readers else "engine"
    return AnsweredBy(reader=reader, engine=next(iter(engines), None))
