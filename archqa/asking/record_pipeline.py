"""Answers of a pipeline with a model: its queries in words, or an agent's own words."""

from collections.abc import Iterable, Iterator
from typing import Any

from archqa.asking.answer import Answer, AnswerLine, Evidence, Status
from archqa.asking.record_answer import PERFORMER, not_understood_answer
from archqa.asking.record_displays import clean_name
from archqa.asking.record_grammar import (
    PatientQueries,
    answer_of_queries,
    declined_with_facts,
)
from archqa.core.id_lists import list_ids
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, NotUnderstood, Refused
from archqa.fhir import FhirError, Record, Resource, display_name
from archqa.query import Query
from archqa.query.explanation import all_scalars
from archqa.query.kinds import ERROR
from archqa.tasks.fhir_agentbench.later_resources import is_later
from archqa.tasks.fhir_agentbench.result import RecordResult, row_text, rows_by_reference

CODE_PERFORMER = "code that a model wrote"

NOT_VERIFIED = "Code that a model wrote gave this answer; no query verified what it cites."
_UNCITED = "Code that a model wrote answered without citing resources of the record"


def pipeline_answer(
    question: RecordQuestion, outcome: RecordResult | CaseFailed, queries: PatientQueries
) -> Answer:
    """Return the answer in words.

    Queries are carried out again at the time of the question, verified and worded as those of the
    grammar. Raises the failure of a model that gave nothing, and as the record does.
    """
    if isinstance(outcome, CaseFailed):
        return _unanswered(question, outcome, queries)
    if not outcome.queries:
        return _own_answer(question, outcome, queries)
    asked = _asked(outcome)
    answer = answer_of_queries(question.question, asked, queries)
    remarks = [*answer.remarks, *outcome.warnings]
    if answer.status is Status.NOT_FOUND:
        remarks += _searched_by_name(asked)
    return answer.model_copy(update={"remarks": tuple(dict.fromkeys(remarks))})


def _searched_by_name(asked: Iterable[Query]) -> Iterator[str]:
    """Yield what was looked for by a name of the model's choice, which the record may not use."""
    for query in asked:
        if query.names and not query.concepts:
            names = " or ".join(f"“{name}”" for name in query.names)
            yield f"{names} was searched by name alone, not by codes."


def _asked(result: RecordResult) -> list[Query]:
    """The queries without a time of their own: that of the question counts, not a model's."""
    return [Query.model_validate({**fields, "now": None}) for fields in result.queries]


def _own_answer(question: RecordQuestion, result: RecordResult, queries: PatientQueries) -> Answer:
    """The answer that an agent wrote without a typed query, with what it cites of the record."""
    evidence = tuple(_resource_evidence(result, queries.record))
    remarks = (*result.warnings, *_later_evidence(evidence, queries))
    text = result.answer or ""
    if result.handed_over and not evidence:
        reason = f"{result.handed_over.rstrip('.')}. {_UNCITED}"
        return not_understood_answer(question.question, (), reason, queries.patient)
    answer = Answer(
        question=question.question,
        status=Status.NOT_FOUND,
        message=text,
        remarks=remarks,
        performer=PERFORMER,
    )
    if not text or not evidence:
        return answer
    changes: dict[str, Any] = {
        "status": Status.ANSWERED,
        "message": "",
        "lines": (AnswerLine(text=text, citations=tuple(each.id for each in evidence)),),
        "evidence": evidence,
    }
    if result.handed_over:
        changes |= {"remarks": (*remarks, NOT_VERIFIED), "performer": CODE_PERFORMER}
    return answer.model_copy(update=changes)


def _unanswered(question: RecordQuestion, failure: CaseFailed, queries: PatientQueries) -> Answer:
    """Return what a refusal says of the question. Raises the failure of a model that gave nothing."""
    if isinstance(failure.result, RecordResult) and failure.result.declined:
        related = _asked(failure.result)
        return declined_with_facts(question.question, failure.full_text, related, queries)
    words: tuple[str, ...] = ()
    if isinstance(failure, NotUnderstood):
        status, words = Status.NOT_UNDERSTOOD, (failure.part,)
    elif isinstance(failure, Refused):
        status = Status.DECLINED
    elif failure.details:  # The query was understood in part, and cannot be carried out.
        status = Status.NOT_UNDERSTOOD
    else:
        raise failure
    return Answer(
        question=question.question,
        status=status,
        message=failure.full_text,
        not_understood=words,
        performer=PERFORMER,
    )


def _resource_evidence(result: RecordResult, record: Record) -> Iterator[Evidence]:
    """Yield what is cited, as far as the record has it and it was not entered in error."""
    rows = rows_by_reference(result.rows)
    for kind, ids in result.cited.items():
        for resource_id in ids:
            resource = _read(record, kind, resource_id)
            if resource is None or ERROR in all_scalars(resource):
                continue
            reference = f"{kind}/{resource_id}"
            row = rows.get(reference, {})
            yield Evidence(
                id=reference,
                kind="resource",
                text=row_text(row) or clean_name(display_name(resource)),
                source=kind,
                date=str(row.get("time") or ""),
            )


def _later_evidence(evidence: Iterable[Evidence], queries: PatientQueries) -> Iterator[str]:
    """Yield which of the cited resources are dated after a stated time of the question."""
    later = []
    for each in evidence:
        kind, _, resource_id = each.id.partition("/")
        resource = _read(queries.record, kind, resource_id)
        if resource is not None and is_later(resource, queries.cutoff):
            later.append(each.id)
    if later:
        yield f"Dated after the question: {list_ids(later)}."


def _read(record: Record, kind: str, resource_id: str) -> Resource | None:
    try:
        return record.get(kind, resource_id)
    except FhirError:
        return None
