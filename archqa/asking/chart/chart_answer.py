"""One answer from the resources and the notes of a chart."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

from archqa.asking.answer import Answer, AnsweredBy, AnswerLine, Status
from archqa.asking.chart.ask_chart import AGENT, GIVEN_NOTE, answer_from_resources
from archqa.asking.chart.judgements import declines_to_judge, judged_parts
from archqa.asking.chart.open_chart import OpenChart
from archqa.asking.chart.patient_chart import PatientChart
from archqa.asking.chart.question_parts import question_parts
from archqa.asking.chart.reconciled import Lines, joined_lines, reconciled
from archqa.asking.chart.related_facts import is_all_named, related_facts
from archqa.asking.chart.statement_conflicts import note_conflicts
from archqa.asking.question import ModelBackends, Question, asks_model
from archqa.chart.encoding import encode
from archqa.core.id_lists import list_ids
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import InputError
from archqa.fhir import FhirError
from archqa.notes.documents import Document

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
        "answered_by": AnsweredBy(reader="model", model=backends.answered_by),
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
            is_partial=bool(judgements)
            or any(part.is_partial for part in (self._of_record, note_answer, *holding)),
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
