"""One answer from the resources and the notes of a chart, by the engine inside archqa."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from archqa.asking.answer import Answer, AnswerLine, Status
from archqa.asking.chart.judgements import declines_to_judge, judged_parts
from archqa.asking.chart.open_chart import OpenChart
from archqa.asking.chart.question_parts import question_parts
from archqa.asking.chart.reconciled import Lines, joined_lines, reconciled
from archqa.asking.chart.related_facts import is_all_named, related_facts
from archqa.asking.chart.statement_conflicts import note_conflicts

_VERDICT = re.compile(r"^(?:Yes|No)[:,.] ")
_NOT_JUDGED = "This asks for a clinical judgement or a prediction, which is not made."
_ON_THIS = "What the chart holds on this:"
_RECORD_HOLDS = "What it holds on this:"


def chart_answer(
    question: str, record_answer: Answer | None, chart: OpenChart, *, ask_notes: bool = False
) -> Answer:
    """Return the answer of both halves, given that of the resources (None if it failed).

    What the resources answer whole is not looked for in notes, unless `ask_notes`; but a note that
    says otherwise is shown.
    """
    if record_answer and record_answer.status is Status.ANSWERED and not ask_notes:
        return _with_conflicts(question, record_answer, chart)
    asked = question_parts(question)
    judged = judged_parts(asked.parts)
    if not judged.askable:
        return _declined(question, judged.judgements, record_answer, chart)
    note_answer = chart.note_answerer.answer(question, judged.askable)
    facts = _facts(question, judged.askable, record_answer, chart)
    remarks = [f"Not answered, a judgement: “{part}”" for part in judged.judgements]
    return _merged(question, record_answer, note_answer, facts, remarks, chart)


def _with_conflicts(question: str, record_answer: Answer, chart: OpenChart) -> Answer:
    """Return the resources' answer with the sentences that say otherwise or later."""
    conflicts = note_conflicts(question, record_answer, chart.notes, chart.texts)
    if not conflicts:
        return record_answer
    answerer = chart.note_answerer
    lines = [answerer.quoted(conflict.place) for conflict in conflicts]
    names = ", ".join(dict.fromkeys(conflict.name for conflict in conflicts))
    remark = f"On {names}, notes say otherwise or later than the resources: both are shown."
    changes = {
        "lines": (*map(_without_verdict, record_answer.lines), *(line for line, _ in lines)),
        "evidence": (*record_answer.evidence, *chain.from_iterable(cited for _, cited in lines)),
        "remarks": (remark, *record_answer.remarks),
        "performer": f"{record_answer.performer}, {answerer.performer}",
    }
    return record_answer.model_copy(update=changes)


def _without_verdict(line: AnswerLine) -> AnswerLine:
    """Return a line without "Yes:" or "No:": that is what notes say otherwise."""
    return line.model_copy(update={"text": _VERDICT.sub("", line.text), "answering": None})


def _declined(
    question: str, judgements: Sequence[str], record_answer: Answer | None, chart: OpenChart
) -> Answer:
    """Return that no judgement is made, with what resources and notes hold on the matter."""
    note_answer = chart.note_answerer.answer(question, judgements)
    declined = record_answer if record_answer and record_answer.status is Status.DECLINED else None
    message = declined.message if declined else f"{_NOT_JUDGED} {_ON_THIS}"
    related = [answer for answer in (declined, note_answer) if answer is not None]
    lines = joined_lines(related)
    if not lines.lines:
        message = message.replace(f" {_ON_THIS}", "")
    return Answer(
        question=question,
        status=Status.DECLINED,
        lines=lines.lines,
        evidence=lines.evidence,
        message=message,
        query=declined.query if declined else None,
        remarks=declined.remarks if declined else (),
        performer=_performers(related),
    )


def _facts(
    question: str, parts: Sequence[str], record_answer: Answer | None, chart: OpenChart
) -> list[Answer]:
    """Return what the resources hold on the parts of a question that they do not answer whole."""
    if record_answer and record_answer.status in (Status.ANSWERED, Status.NOT_FOUND):
        return [record_answer]
    of_parts = [chart.ask_record(part) for part in parts] if len(parts) > 1 else []
    answered = [answer for answer in of_parts if answer.status is Status.ANSWERED]
    related = related_facts(question, chart.ask_record, chart.vocabulary, chart.now.date())
    return [*answered, *related]


def _merged(
    question: str,
    record_answer: Answer | None,
    note_answer: Answer,
    facts: Sequence[Answer],
    remarks: Sequence[str],
    chart: OpenChart,
) -> Answer:
    holding = [answer for answer in facts if answer.lines]
    status = _status(question, record_answer, note_answer, facts, chart)
    if status is Status.NOT_FOUND:  # What only names the same things answers nothing.
        holding = [answer for answer in holding if answer is record_answer]
    lines = reconciled(joined_lines([note_answer]), joined_lines(holding))
    return Answer(
        question=question,
        status=status,
        lines=lines.lines,
        evidence=lines.evidence,
        message=_message(status, lines, record_answer, note_answer, facts),
        query=_query(record_answer, holding),
        not_understood=_not_understood(status, record_answer),
        remarks=(*remarks, *_remarks(status, record_answer, note_answer, holding)),
        performer=_performers([note_answer, *holding]),
    )


def _status(
    question: str,
    record_answer: Answer | None,
    note_answer: Answer,
    facts: Sequence[Answer],
    chart: OpenChart,
) -> Status:
    """Return the status of both halves.

    What cannot be read as a query is not found where the resources have nothing of what the
    question names, or no such name: the notes were searched by all its words. But a word that is
    neither in the notes nor an ordinary one may be a slip of the pen.
    """
    if note_answer.status is Status.ANSWERED or _answers(record_answer):
        return Status.ANSWERED
    if declines_to_judge(record_answer):
        return Status.DECLINED
    is_unread = record_answer is None or record_answer.status is Status.NOT_UNDERSTOOD
    if is_unread and facts and all(fact.status is Status.ANSWERED for fact in facts):
        is_whole = is_all_named(question, chart.vocabulary, chart.now.date())
        return Status.ANSWERED if is_whole else Status.NOT_UNDERSTOOD
    if is_unread and any(fact.status is Status.ANSWERED for fact in facts):
        return Status.NOT_UNDERSTOOD
    if record_answer is not None and chart.has_unknown_word(record_answer.not_understood):
        return Status.NOT_UNDERSTOOD
    return Status.NOT_FOUND


def _answers(record_answer: Answer | None) -> bool:
    return record_answer is not None and record_answer.status is Status.ANSWERED


def _message(
    status: Status,
    lines: Lines,
    record_answer: Answer | None,
    note_answer: Answer,
    facts: Sequence[Answer],
) -> str:
    if status is Status.ANSWERED:
        return ""
    if status in (Status.NOT_UNDERSTOOD, Status.DECLINED) and record_answer is not None:
        held = f" {_ON_THIS}" if lines.lines else ""
        return f"{_own_message(record_answer)} {note_answer.message}{held}"
    searched = [fact.message for fact in facts if fact.status is Status.NOT_FOUND]
    if record_answer is not None and record_answer.status is not Status.NOT_UNDERSTOOD:
        searched = [_own_message(record_answer), *searched]
    elif not searched and record_answer is not None:
        searched = [record_answer.message]
    return " ".join(dict.fromkeys([*searched, note_answer.message]))


def _own_message(answer: Answer) -> str:
    """Return the message of an answer without the lead to its lines."""
    return answer.message.removesuffix(_RECORD_HOLDS).strip()


def _query(record_answer: Answer | None, holding: Sequence[Answer]) -> str | None:
    queries = [answer.query for answer in holding if answer.query]
    if record_answer is not None and record_answer.query:
        return record_answer.query
    return "\n".join(dict.fromkeys(queries)) or None


def _not_understood(status: Status, record_answer: Answer | None) -> tuple[str, ...]:
    if status is Status.NOT_UNDERSTOOD and record_answer is not None:
        return record_answer.not_understood
    return ()


def _remarks(
    status: Status, record_answer: Answer | None, note_answer: Answer, holding: Sequence[Answer]
) -> Iterator[str]:
    if record_answer is not None and status is Status.ANSWERED and not _answers(record_answer):
        if holding and record_answer.status is Status.NOT_UNDERSTOOD:
            yield "The resources were asked for what the question names, not for all its words."
        else:
            yield f"The resources do not answer: {_own_message(record_answer)}"
    own = record_answer.remarks if record_answer else ()
    yield from dict.fromkeys(chain(own, note_answer.remarks, *(one.remarks for one in holding)))


def _performers(answers: Sequence[Answer]) -> str:
    return ", ".join(dict.fromkeys(answer.performer for answer in answers if answer.performer))
