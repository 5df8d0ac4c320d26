"""The tools as plain functions: each asks archqa's own doors about the record that is served."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from archqa.asking.answer import Evidence
from archqa.asking.ask import ask
from archqa.asking.chart_agent.notes import ShownNotes
from archqa.asking.clock import clock
from archqa.asking.question import parse_time
from archqa.asking.record import PatientQueries
from archqa.briefing.brief import brief
from archqa.chart.encoding import encode, remembered_vectors
from archqa.chart.note_search import search_notes
from archqa.chart.open_notes import NoteOpener
from archqa.errors import CallerError
from archqa.fhir import Writer
from archqa.mcp.limits import json_size
from archqa.mcp.one_patient import refers_to_others
from archqa.mcp.records import ServedRecord, reference_of, time_text
from archqa.mcp.values import (
    AnsweredQuery,
    AskedAnswer,
    FoundNotes,
    FoundResource,
    FoundResources,
    PatientBrief,
    QueriedRecord,
    QueryRow,
    WrittenResource,
)
from archqa.query import CannotExecute, Query
from archqa.query.everyday import Declined, NotUnderstood, patient_vocabulary, read_question
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.settings import Settings

READ_ONLY = (
    "The record is served read-only: nothing was written.\n"
    "Whoever runs the server can allow writes in memory: archqa mcp --allow-writes."
)
IN_MEMORY = (
    "Kept in the server's memory until it ends; the record's file is unchanged. search_resources, "
    "get_resource and query_record see it; ask, brief and search_notes read the file."
)
_OTHER_PATIENT = "the resource is not about the patient served, or refers to another one."


class RecordTools(NamedTuple):
    """The tools of one server. `writer` is None where the record is read-only."""

    served: ServedRecord
    settings: Settings
    writer: Writer | None = None

    def search_notes(
        self,
        query: str,
        patient: str | None = None,
        since: str = "",
        until: str = "",
        title: str = "",
        limit: int = 15,
    ) -> FoundNotes:
        """Return the sentences of a patient's notes that fit best. Raises `CallerError`."""
        if not query.strip():
            raise CallerError("The query has no word.\nWrite words or a sentence to search for.")
        match = self.served.find_patient(patient)
        notes = NoteOpener(self.served.stored, remembered_vectors.encode).open(match.id)
        shown = ShownNotes(notes, encode)
        documents = shown.select(since, until, title)
        count = max(1, min(limit, self.served.limits.rows))
        hits = search_notes(notes, query, encode, documents, None, count) if documents else []
        evidence = (shown.evidence(notes.sentence_at(hit.place).id) for hit in hits)
        sentences = tuple(self._fitting(filter(None, evidence)))
        remarks = list(_unread(len(notes.unread)))
        if not documents:
            remarks.append("The patient has no notes within these limits.")
        if len(sentences) < len(hits):
            remarks.append(f"{len(hits) - len(sentences)} left out: the reply is full.")
        return FoundNotes(patient=match.as_json, sentences=sentences, remarks=tuple(remarks))

    def _fitting(self, evidence: Iterable[Evidence]) -> Iterator[Evidence]:
        """Yield the sentences that a reply has room for."""
        room = self.served.limits.bytes * 3 // 4
        for sentence in evidence:
            room -= json_size(sentence.model_dump(mode="json"))
            if room < 0:
                return
            yield sentence

    def search_resources(self, query: str) -> FoundResources:
        """Return one page of a FHIR search. Raises `FhirError` and `CallerError`."""
        return self.served.search(query)

    def get_resource(self, reference: str) -> FoundResource:
        """Return one resource. Raises `CallerError` if there is none."""
        return self.served.read(reference)

    def query_record(
        self, question: str, patient: str | None = None, now: str | None = None
    ) -> QueriedRecord:
        """Return how the everyday grammar reads a question, and the rows. Raises `CallerError`."""
        match = self.served.find_patient(patient)
        stated = parse_time(now)
        asked_at = clock(self.served.record, match.id, stated, patient=match.resource)
        queries = PatientQueries(
            self.served.record,
            match.id,
            asked_at.now,
            is_time_stated=stated is not None,
        )
        vocabulary = patient_vocabulary(self.served.record, match.id)
        reading = read_question(question, vocabulary, today=asked_at.now.date())
        outcome = QueriedRecord(
            patient=match.as_json,
            question=question,
            now=asked_at.now.replace(tzinfo=None).isoformat(timespec="seconds"),
            status="understood",
            remarks=tuple(filter(None, [asked_at.remark])),
        )
        if isinstance(reading, NotUnderstood):
            return outcome.model_copy(
                update={
                    "status": "not_understood",
                    "reason": reading.reason,
                    "not_understood": reading.words,
                }
            )
        if isinstance(reading, Declined):
            answered = self._answered(reading.related, queries)
            return outcome.model_copy(
                update={"status": "declined", "reason": reading.reason, "queries": answered}
            )
        return outcome.model_copy(update={"queries": self._answered(reading.queries, queries)})

    def _answered(
        self, asked: Iterable[Query], queries: PatientQueries
    ) -> tuple[AnsweredQuery, ...]:
        try:
            results = [queries(query) for query in asked]
        except CannotExecute as problem:
            raise CallerError(" ".join(str(problem).split())) from None
        return tuple(_answered_query(result, self.served.limits.rows) for result in results)

    def ask(
        self,
        question: str,
        patient: str | None = None,
        now: str | None = None,
        max_words: int | None = None,
    ) -> AskedAnswer:
        """Return the cited answer of `archqa.ask`. Raises as that does."""
        match = self.served.find_patient(patient)
        answer = ask(
            question,
            patient=match.id,
            record=self.served.location,
            now=now,
            max_words=max_words,
            settings=self.settings,
            announce=_said_at_start,
        )
        return AskedAnswer.model_validate(self._with_remark(answer.as_json()))

    def brief(
        self,
        patient: str | None = None,
        now: str | None = None,
        sections: Sequence[str] | None = None,
    ) -> PatientBrief:
        """Return the summary of `archqa.brief`. Raises as that does."""
        match = self.served.find_patient(patient)
        summary = brief(
            patient=match.id,
            record=self.served.location,
            now=now,
            sections=sections or None,
            settings=self.settings,
            announce=_said_at_start,
        )
        return PatientBrief.model_validate(self._with_remark(summary.as_json()))

    def _with_remark(self, content: dict[str, Any]) -> dict[str, Any]:
        """Add that what a client wrote was not read, where that may matter."""
        if self.served.is_written:
            remark = "Resources that were added in memory were not read for this."
            content = {**content, "remarks": [*content["remarks"], remark]}
        return content

    def create_resource(self, resource: dict[str, Any]) -> WrittenResource:
        """Add a resource in memory. Raises `CallerError` where that is not allowed or not valid."""
        if self.writer is None:
            raise CallerError(READ_ONLY)
        only = self.served.only_patient
        is_of_other = only is not None and refers_to_others(resource, only.id)
        result = self.writer.post(
            str(resource.get("resourceType", "")),
            json.dumps(resource, ensure_ascii=False),
            who="mcp",
            against=[_OTHER_PATIENT] if is_of_other else [],
        )
        findings = tuple(
            f"{finding.path}: {finding.message}" if finding.path else finding.message
            for finding in result.findings
        )
        if result.stored is None:
            raise CallerError("\n".join(["Nothing was written.", *findings]))
        return WrittenResource(
            id=reference_of(result.stored),
            resource=result.stored,
            findings=findings,
            remark=IN_MEMORY,
        )


def _said_at_start(_: object) -> None:
    """Say nothing at each call: the command says where text goes when it starts."""


def _answered_query(result: QueryResult, limit: int) -> AnsweredQuery:
    """Return a query with its rows: the chosen ones first, then the latest ones."""
    others = [row for row in reversed(result.rows) if not row.chosen]
    rows = [*result.chosen, *others][:limit]
    query = result.query
    return AnsweredQuery(
        read_as=query.sentence,
        query=query.model_dump(mode="json", exclude_defaults=True),
        kind=result.answer.kind,
        values=result.answer.values,
        unit=result.answer.unit,
        rows=tuple(map(_query_row, rows)),
        row_count=len(result.rows),
        warnings=result.warnings,
        searched=result.searched,
    )


def _query_row(row: Row) -> QueryRow:
    return QueryRow(
        evidence=row.refs,
        name=row.name,
        time=time_text(row.time),
        end=time_text(row.end),
        value=row.value,
        unit=row.unit,
        text=row.text,
        facts=row.facts,
        chosen=row.chosen,
    )


def _unread(count: int) -> Iterator[str]:
    if count:
        yield f"Documents that could not be read: {count}."
