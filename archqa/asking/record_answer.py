"""The answer to a question about a record in words: every line says a fact and cites its rows.

Query results become lines: values with unit and date, lists with one row a line, a yes or no from
facts. What is cited is read again from the record; a line that it does not confirm is left out.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from archqa.asking.answer import Answer, AnswerLine, Status
from archqa.asking.patient import patient_match
from archqa.asking.record_combination import absence_message, combined
from archqa.asking.record_evidence import record_evidence
from archqa.asking.record_numbers import listed
from archqa.asking.record_parts import PartWriter
from archqa.asking.record_statements import MAX_LINES, Execute, Part, Statement, references
from archqa.asking.record_support import Support
from archqa.fhir import Record, Resource
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.model import Query
from archqa.query.questions.everyday.declining import Reason

MAX_CITED_ROWS = 12
"""Rows that one line cites; of a count of more, the others are evidence only."""

_SINCE_THEN = frozenset({"age", "elapsed"})
"""Fields that depend on the time of the question."""

_NOT_CONFIRMED = "What was found could not be confirmed in the record, so it is not shown."

Reading = tuple[Query, QueryResult]
"""A query and what it found."""


def record_answer(
    question: str,
    readings: Sequence[Reading],
    patient: Resource,
    record: Record,
    *,
    joined: Literal["and", "or"] = "and",
    execute: Execute | None = None,
) -> Answer:
    """Return the answer that the queries of a question give, in words.

    Args:
        question: The question as asked.
        readings: The queries, with `now` set, and what each found.
        patient: The Patient resource; name and pronoun are taken from it.
        record: Where the cited resources are read again.
        joined: `or`: the queries look for one thing in several places, and where one has it, what
            the others do not have is only a remark; `and`: queries with other names stand alone.
        execute: Carries out a further query about this patient, where nothing was found: it tells
            what was searched, and what has ended. Without it, an absence tells only `searched`.

    Raises as the record does.
    """
    support = Support(record)
    writer = PartWriter(patient, support, execute)
    parts = [writer.part(query, result) for query, result in readings]
    if joined == "or":
        parts = [part._replace(topic="") for part in parts]
    parts = combined(parts)
    drafts = _drafts(parts, support)
    answered = any(part.status is Status.ANSWERED for part in parts)
    shown = [draft for draft in drafts if draft.part.status is Status.ANSWERED or not answered]
    message = absence_message(parts)
    status = Status.ANSWERED if answered else Status.NOT_FOUND
    if answered and not any(draft.lines for draft in shown):
        status, message = Status.NOT_FOUND, _NOT_CONFIRMED
    answer = _with_drafts(_answer(question, status, readings, patient), shown, readings)
    return answer.model_copy(update={"message": message, "remarks": _remarks(drafts)})


def declined_answer(
    question: str,
    reason: Reason,
    related: Sequence[Reading],
    patient: Resource,
    record: Record,
    *,
    execute: Execute | None = None,
) -> Answer:
    """Return that a judgement or prediction is not made, with the related facts as cited lines.

    Raises as the record does.
    """
    support = Support(record)
    writer = PartWriter(patient, support, execute)
    parts = [writer.facts(query, result) for query, result in related]
    drafts = _drafts(parts, support)
    sentences = [f"{reason.sentence.rstrip('.')}."]
    sentences += dict.fromkeys(part.message for part in parts if part.message)
    if any(draft.lines for draft in drafts):
        sentences.append("What it holds on this:")
    answer = _answer(question, Status.DECLINED, related, patient)
    answer = _with_drafts(answer, drafts, related)
    changes = {
        "ground": reason.ground,
        "message": " ".join(sentences),
        "remarks": _remarks(drafts),
    }
    return answer.model_copy(update=changes)


def not_understood_answer(
    question: str, words: Sequence[str], reason: str, patient: Resource
) -> Answer:
    """Return that words of the question could not be taken into account, and are not left out."""
    quoted = listed([f'"{word}"' for word in words])
    message = f"Not understood: {quoted}" if quoted else "The question was not understood"
    message = f"{message} ({reason.rstrip('.')})." if reason else f"{message}."
    answer = _answer(question, Status.NOT_UNDERSTOOD, (), patient)
    return answer.model_copy(update={"message": message, "not_understood": tuple(words)})


class _Draft(NamedTuple):
    """A part with its lines; `rows` are evidence, those of the lines first."""

    part: Part
    lines: tuple[AnswerLine, ...]
    rows: tuple[Row, ...]
    remarks: tuple[str, ...]


def _answer(
    question: str, status: Status, readings: Sequence[Reading], patient: Resource
) -> Answer:
    sentences = dict.fromkeys(_query_text(query) for query, _ in readings)
    return Answer(
        question=question,
        status=status,
        query=" ".join(sentences) or None,
        patient=patient_match(patient).as_json,
    )


def _query_text(query: Query) -> str:
    """The query in words; the time of the question only where the answer depends on it."""
    is_relative = any(span.is_relative for span in query.when.spans)
    if query.against is not None or query.state or is_relative or query.returns in _SINCE_THEN:
        return query.sentence
    return query.model_copy(update={"now": None}).sentence


def _with_drafts(answer: Answer, drafts: Sequence[_Draft], readings: Sequence[Reading]) -> Answer:
    rows = [row for draft in drafts for row in draft.rows]
    lines = dict.fromkeys(line for draft in drafts for line in draft.lines)
    evidence = record_evidence(rows, (result for _, result in readings))
    return answer.model_copy(update={"lines": tuple(lines), "evidence": tuple(evidence)})


def _remarks(drafts: Sequence[_Draft]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(remark for draft in drafts for remark in draft.remarks))


def _drafts(parts: Sequence[Part], support: Support) -> list[_Draft]:
    drafts = []
    limits = _limits([min(len(part.statements), part.limit) for part in parts])
    for part, limit in zip(parts, limits, strict=True):
        drafts.append(_draft(part, limit, support))
    return drafts


def _limits(counts: Sequence[int]) -> list[int]:
    """How many lines each part may have: an equal share, and what others leave."""
    limits = [0] * len(counts)
    for _ in range(MAX_LINES):
        wanting = [index for index, count in enumerate(counts) if limits[index] < count]
        if not wanting or sum(limits) >= MAX_LINES:
            break
        limits[min(wanting, key=lambda index: limits[index])] += 1
    return limits


def _draft(part: Part, limit: int, support: Support) -> _Draft:
    """The lines of a part, and in the last of them how many more there are."""
    statements = list(part.statements)
    hidden = max(0, len(statements) - limit)
    shown = statements[hidden:] if part.is_series else statements[:limit]
    lines = []
    remarks = list(part.remarks)
    for statement in shown:
        problem = _problem(statement, support)
        if problem:
            remarks.append(f"A line was left out: {problem}.")
        else:
            lines.append(_line(statement))
    if lines:
        lines[0] = _prefixed(lines[0], part.verdict)
        lines[-1] = _with_rest(lines[-1], hidden, earlier=part.is_series)
    rows = [row for statement in (*shown, *part.statements) for row in statement.rows]
    return _Draft(part, tuple(lines), (*rows, *part.rows), tuple(remarks))


def _problem(statement: Statement, support: Support) -> str:
    """What the cited rows do not confirm; empty if they confirm everything."""
    if not statement.rows:
        return f"nothing supports “{statement.text}”"
    for row in statement.rows[:MAX_CITED_ROWS]:
        problem = support.problem(row)
        if problem:
            return f"{row.refs[0]}, {problem}"
    return ""


def _line(statement: Statement) -> AnswerLine:
    citations = references(statement.rows[:MAX_CITED_ROWS])
    return AnswerLine(text=statement.text, citations=tuple(citations))


def _prefixed(line: AnswerLine, verdict: str) -> AnswerLine:
    return line.model_copy(update={"text": f"{verdict}{line.text}"})


def _with_rest(line: AnswerLine, hidden: int, *, earlier: bool) -> AnswerLine:
    if not hidden:
        return line
    rest = f"and {hidden} {'earlier' if earlier else 'more'}"
    return line.model_copy(update={"text": f"{line.text}, {rest}"})
