"""The answer to a question about a record in words: every line says a fact and cites its rows.

Query results become lines: values with unit and date, lists with one row a line, a yes or no from
facts. What is cited is read again from the record; a line that it does not confirm is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from archqa.asking.answer import Answer, AnswerLine, Evidence, Opening, Status
from archqa.asking.patient import patient_match
from archqa.fhir import Record, Resource
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.model import Query
from archqa.query.questions.everyday.declining import Reason
from archqa.query.wording.absence import nothing_text
from archqa.query.wording.details import (
    MAX_LINES,
    Execute,
    Part,
    Searched,
    Statement,
    references,
)
from archqa.query.wording.parts import PartWriter
from archqa.query.wording.queries import query_text
from archqa.query.wording.rows import value_text
from archqa.query.wording.support import Support
from archqa.query.wording.words import clean_name, listed, row_status

_RECORD_HOLDS = "What it holds on this:"
"""Leads from the reason why a question is declined to the related facts."""

MAX_CITED_ROWS = 12
"""Rows that one line cites; of a count of more, the others are evidence only."""

_SINCE_THEN = frozenset({"age", "elapsed"})
"""Fields that depend on the time of the question."""

_NOT_CONFIRMED = (
    "What was found could not be confirmed in the record, so it is not shown."
)

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
    max_lines: int = MAX_LINES,
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
        max_lines: The number of lines; the first line says if there are more.

    Raises as the record does.
    """
    support = Support(record)
    writer = PartWriter(patient, support, execute, max_lines)
    parts = [writer.part(query, result) for query, result in readings]
    if joined == "or":
        parts = [part._replace(topic="") for part in parts]
    parts = _combined(parts)
    if max_lines > MAX_LINES:
        has_all = sum(len(part.statements) for part in parts) <= max_lines
        share = max_lines if has_all else max_lines // len(parts)
        parts = [_with_limit(part, share) for part in parts]
    drafts = _drafts(parts, support, max_lines)
    answering = [draft for draft in drafts if draft.part.is_found]
    status, message = Status.ANSWERED, _absence_message(parts)
    if not any(draft.lines for draft in answering):
        status = Status.NOT_FOUND
        message = _NOT_CONFIRMED if answering else message
    answer = _answer(question, status, readings, patient, answering or drafts, drafts)
    is_partial = status is Status.ANSWERED and any(draft.is_cut for draft in drafts)
    return answer.model_copy(update={"message": message, "is_partial": is_partial})


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
    why = message = " ".join(sentences)
    if any(draft.lines for draft in drafts):
        message = f"{why} {_RECORD_HOLDS}"
    answer = _answer(question, Status.DECLINED, related, patient, drafts, drafts)
    return answer.model_copy(
        update={"ground": reason.ground, "message": message, "reason": why}
    )


def not_understood_answer(
    question: str, words: Sequence[str], reason: str, patient: Resource
) -> Answer:
    """Return that words of the question could not be taken into account, and are not left out."""
    quoted = listed([f'"{word}"' for word in words])
    message = (
        f"Not understood: {quoted}" if quoted else "The question was not understood"
    )
    message = f"{message} ({reason.rstrip('.')})." if reason else f"{message}."
    return Answer(
        question=question,
        status=Status.NOT_UNDERSTOOD,
        message=message,
        not_understood=tuple(words),
        patient=patient_match(patient).as_json,
    )


class _Draft(NamedTuple):
    """A part with its lines; `rows` are evidence, those of the lines first.

    `is_cut` says that the record does not confirm a line, which was left out.
    """

    part: Part
    lines: list[AnswerLine]
    rows: list[Row]
    remarks: list[str]
    is_cut: bool


def _answer(
    question: str,
    status: Status,
    readings: Sequence[Reading],
    patient: Resource,
    shown: Sequence[_Draft],
    drafts: Sequence[_Draft],
) -> Answer:
    """The answer with the lines of the drafts that are `shown`, and the remarks of all `drafts`."""
    queries: dict[str, None] = {}
    for query, _ in readings:
        # The time of the question is said only where the answer depends on it.
        is_relative = any(span.is_relative for span in query.when.spans)
        is_timed = (
            query.against is not None or query.state or query.returns in _SINCE_THEN
        )
        if not is_relative and not is_timed:
            query = query.model_copy(update={"now": None})
        queries[query_text(query)] = None
    lines: dict[AnswerLine, None] = {}
    rows: list[Row] = []
    for draft in shown:
        lines.update(dict.fromkeys(draft.lines))
        rows += draft.rows
    remarks: dict[str, None] = {}
    for draft in drafts:
        remarks.update(dict.fromkeys(draft.remarks))
    return Answer(
        question=question,
        status=status,
        lines=tuple(lines),
        evidence=tuple(_evidence(rows, readings)),
        query=" ".join(queries) or None,
        patient=patient_match(patient).as_json,
        remarks=tuple(remarks),
    )


def _combined(parts: Sequence[Part]) -> list[Part]:
    """The parts, with one verdict for those that look for the same thing in several kinds of rows.

    A yes stands first and against a no: what was not ordered may have been given. No statement is
    made twice.
    """
    affirmed = set()
    answered = set()
    for part in parts:
        if part.says == "yes":
            affirmed.add(part.topic)
        if part.is_found:
            answered.add(part.topic)
    combined: list[Part] = []
    verdicts: set[tuple[str, str]] = set()
    texts: set[str] = set()
    for part in sorted(
        parts, key=lambda part: part.topic in affirmed and part.says != "yes"
    ):
        is_repeated = (part.topic, part.verdict) in verdicts
        if is_repeated or (part.topic in affirmed and part.says != "yes"):
            part = part._replace(verdict="", says=None)
        if not part.is_found and part.topic in answered:
            remarks = list(part.remarks)
            for rows in part.searched:
                if rows.number:
                    remarks.append(f"Not among {rows.text}.")
                else:
                    remarks.append(f"The record has {rows.text}.")
            part = part._replace(message="", subject="", remarks=tuple(remarks))
        verdicts.add((part.topic, part.verdict))
        statements = []
        for statement in part.statements:
            if statement.text not in texts:
                statements.append(statement)
        texts.update(statement.text for statement in statements)
        combined.append(part._replace(statements=tuple(statements)))
    return combined


def _absence_message(parts: Sequence[Part]) -> str:
    """What was not found: absences of the same subject as one sentence, each sentence once."""
    searched: dict[str, list[Searched]] = {}
    sentences: dict[str, str] = {}
    notes: dict[str, None] = {}
    unsearched = {part.topic for part in parts if part.is_unsearched}
    for part in parts:
        if part.topic in unsearched and not part.is_unsearched:
            continue  # It may be among the rows that could not be read.
        notes.update(dict.fromkeys(part.notes))
        if part.subject:
            searched.setdefault(part.subject, []).extend(part.searched)
            sentences[part.subject] = nothing_text(part.subject, searched[part.subject])
        elif part.message:
            sentences[part.message] = part.message
    return " ".join([*sentences.values(), *notes])


def _with_limit(part: Part, max_lines: int) -> Part:
    """The part with all its statements, as far as they fit, which its first line says."""
    number = len(part.statements)
    if number > max_lines:
        which = "latest" if part.is_series else "first"
        verdict = f"The {max_lines} {which} of {number}: {part.verdict}"
        part = part._replace(verdict=verdict)
    return part._replace(limit=max_lines)


def _drafts(
    parts: Sequence[Part], support: Support, max_lines: int = MAX_LINES
) -> list[_Draft]:
    """The lines of each part: an equal share of those that an answer has, and what others leave."""
    wanted = []
    for part in parts:
        wanted.append(min(len(part.statements), part.limit))
    limits = [0] * len(parts)
    for _ in range(min(max_lines, sum(wanted))):
        waiting = [index for index, limit in enumerate(limits) if limit < wanted[index]]
        limits[min(waiting, key=limits.__getitem__)] += 1
    drafts = []
    for part, limit in zip(parts, limits, strict=True):
        # The lines of a part, and in the last of them how many more there are.
        hidden = max(0, len(part.statements) - limit)
        shown = part.statements[hidden:] if part.is_series else part.statements[:limit]
        texts: list[str] = []
        citations: list[tuple[str, ...]] = []
        rows: list[Row] = []
        problems = []
        for statement in shown:
            rows += statement.rows
            if problem := _problem(statement, support):
                problems.append(f"A line was left out: {problem}.")
            else:
                texts.append(statement.text)
                citations.append(tuple(references(statement.rows[:MAX_CITED_ROWS])))
        if texts:
            texts[0] = f"{part.verdict}{texts[0]}"
            if hidden:
                texts[-1] += f", and {hidden} {'earlier' if part.is_series else 'more'}"
        lines = []
        opening = Opening(part.verdict, part.says) if part.says else None
        for text, cited in zip(texts, citations, strict=True):
            lines.append(AnswerLine(text=text, citations=cited, opening=opening))
            opening = None
        for statement in part.statements:
            rows += statement.rows
        draft = _Draft(
            part=part,
            lines=lines,
            rows=[*rows, *part.rows],
            remarks=[*part.remarks, *problems],
            is_cut=bool(problems),
        )
        drafts.append(draft)
    return drafts


def _problem(statement: Statement, support: Support) -> str:
    """What the cited rows do not confirm; empty if they confirm everything."""
    if not statement.rows:
        return f"nothing supports “{statement.text}”"
    for row in statement.rows[:MAX_CITED_ROWS]:
        problem = support.problem(row)
        if problem:
            return f"{row.refs[0]}, {problem}"
    return ""


def _evidence(rows: Iterable[Row], readings: Iterable[Reading]) -> Iterator[Evidence]:
    """Yield each resource once: those of the rows, then what else the results rest on."""
    texts: dict[str, tuple[str, str]] = {}
    for row in rows:
        text = "the patient"
        if not row.refs[0].startswith("Patient/"):
            parts = (clean_name(row.name), value_text(row), row_status(row))
            text = ", ".join(filter(None, parts))
        date = row.local_time.isoformat() if row.local_time else ""
        for reference in references([row]):
            texts.setdefault(reference, (text, date))
    for _, result in readings:
        for kind, ids in result.evidence.items():
            for resource_id in ids:
                texts.setdefault(f"{kind}/{resource_id}", ("", ""))
    for reference, (text, date) in texts.items():
        yield Evidence.of_resource(reference, text, date)
