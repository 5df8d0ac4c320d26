"""The tools of the protocol: what each is called, says, takes and returns.

The docstring of a tool, and the descriptions of its parameters, are what a client's model reads.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from archqa.asking.ask import ask
from archqa.asking.chart_agent.marked_notes import MarkedNotes
from archqa.asking.clock import clock
from archqa.asking.question import parse_time
from archqa.asking.record import PatientQueries
from archqa.briefing.brief import brief
from archqa.chart.note_index import encode, remembered_vectors
from archqa.chart.notes import NoteOpener
from archqa.chart.search import search_notes
from archqa.errors import CallerError
from archqa.fhir import Writer
from archqa.mcp.one_patient import refers_to_others
from archqa.mcp.records import ServedRecord, json_size, resource_reference
from archqa.mcp.replies import (
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
from archqa.query.execution.findings import QueryResult
from archqa.query.questions.everyday import (
    Declined,
    NotUnderstood,
    patient_vocabulary,
    read_question,
)
from archqa.query.wording.queries import query_text
from archqa.settings import Settings

READ_ONLY = (
    "The record is served read-only: nothing was written.\n"
    "Whoever runs the server can allow writes in memory: archqa mcp --allow-writes."
)
IN_MEMORY = (
    "Kept in the server's memory until it ends; the record's file is unchanged. search_resources, "
    "get_resource and query_record see it; ask, brief and search_notes read the file."
)
_OTHER_PATIENT = (
    "the resource is not about the patient served, or refers to another one."
)

_Patient = Annotated[
    str | None,
    Field(
        description="FHIR id, identifier (MRN) or name; left out where one patient is served."
    ),
]
_DATE = r"^(?:\d{4}(?:-\d{2}(?:-\d{2})?)?)?$"
_Since = Annotated[
    str, Field(pattern=_DATE, description="From 2024, 2024-03 or 2024-03-01 on.")
]
_Until = Annotated[str, Field(pattern=_DATE, description="Up to this date, included.")]
_Now = Annotated[
    str | None,
    Field(
        description="When it is asked (ISO 8601); what is later is left out. By default the "
        "present, or the end of a dead patient's or a shifted record."
    ),
]


class RecordTools(NamedTuple):
    """The tools of one server. `writer` is None where the record is read-only.

    All raise `CallerError`, and those that search `FhirError`.
    """

    served: ServedRecord
    settings: Settings
    writer: Writer | None = None

    def search_notes(
        self,
        query: Annotated[
            str, Field(description="Words or a sentence as a note has them.")
        ],
        patient: _Patient = None,
        since: _Since = "",
        until: _Until = "",
        title: Annotated[
            str, Field(description="Words of a note's title or author.")
        ] = "",
        limit: Annotated[int, Field(ge=1, description="Sentences at most.")] = 15,
    ) -> FoundNotes:
        """Find sentences of a patient's notes, by words and by meaning, best first."""
        if not query.strip():
            raise CallerError(
                "The query has no word.\nWrite words or a sentence to search for."
            )
        match = self.served.find_patient(patient)
        notes = NoteOpener(self.served.stored, remembered_vectors.encode).open(match.id)
        note_evidence = MarkedNotes(notes, encode)
        documents = note_evidence.select(since, until, title)
        count = max(1, min(limit, self.served.limits.rows))
        hits = (
            search_notes(notes, query, encode, documents, None, count)
            if documents
            else []
        )
        sentences = []
        bytes_left = self.served.limits.item_bytes
        for hit in hits:
            sentence = note_evidence.evidence(notes.sentence_at(hit.place).id)
            if sentence is None:
                continue
            bytes_left -= json_size(sentence.model_dump(mode="json"))
            if bytes_left < 0:
                break
            sentences.append(sentence)
        remarks = []
        if notes.unread:
            remarks.append(f"Documents not read: {len(notes.unread)}.")
        if not documents:
            remarks.append("The patient has no notes within these limits.")
        if len(sentences) < len(hits):
            remarks.append(f"{len(hits) - len(sentences)} left out: the reply is full.")
        return FoundNotes(
            patient=match.as_json, sentences=tuple(sentences), remarks=tuple(remarks)
        )

    def search_resources(
        self,
        query: Annotated[
            str,
            Field(description="Such as Observation?patient=ID&code=2160-0&_sort=-date"),
        ],
    ) -> FoundResources:
        """Search resources by a FHIR R4 search string; `next` is the query of the next page."""
        return self.served.search(query)

    def get_resource(
        self,
        reference: Annotated[
            str, Field(description="Type/id, such as Observation/123.")
        ],
    ) -> FoundResource:
        """Read one resource as the record has it."""
        return self.served.read(reference)

    def query_record(
        self,
        question: Annotated[
            str, Field(description="Short, in everyday words: latest LDL?")
        ],
        patient: _Patient = None,
        now: _Now = None,
    ) -> QueriedRecord:
        """Read a short question as a typed query, and return its rows. Check `read_as`."""
        match = self.served.find_patient(patient)
        stated = parse_time(now)
        record = self.served.partial_record
        question_time = clock(record, match.id, stated, patient=match.resource)
        execute = PatientQueries(
            record,
            match.id,
            question_time.now,
            is_time_stated=stated is not None,
        )
        vocabulary = patient_vocabulary(record, match.id)
        reading = read_question(question, vocabulary, today=question_time.now.date())
        status, reason = "understood", ""
        not_understood: tuple[str, ...] = ()
        queries: Iterable[Query] = ()
        if isinstance(reading, NotUnderstood):
            status, reason, not_understood = (
                "not_understood",
                reading.reason,
                reading.words,
            )
        elif isinstance(reading, Declined):
            status, reason, queries = "declined", reading.reason, reading.related
        else:
            queries = reading.queries
        answered = []
        try:
            for query in queries:
                answered.append(
                    _answered_query(execute(query), self.served.limits.rows)
                )
        except CannotExecute as problem:
            raise CallerError(" ".join(str(problem).split())) from None
        gaps = dict.fromkeys(gap.remark for gap in execute.chart.gaps())
        return QueriedRecord(
            patient=match.as_json,
            question=question,
            now=question_time.now.replace(tzinfo=None).isoformat(timespec="seconds"),
            status=status,
            reason=reason,
            not_understood=not_understood,
            queries=tuple(answered),
            remarks=tuple(filter(None, [question_time.remark, *gaps])),
        )

    def ask(
        self,
        question: Annotated[str, Field(description="A question about the patient.")],
        patient: _Patient = None,
        now: _Now = None,
        max_words: Annotated[
            int | None, Field(ge=1, description="Leaves out whole lines.")
        ] = None,
    ) -> AskedAnswer:
        """Answer a question from resources and notes; each line cites its evidence."""
        match = self.served.find_patient(patient)
        answer = ask(
            question,
            patient=match.id,
            record=self.served.location,
            now=now,
            max_words=max_words,
            settings=self.settings,
            announce=_announce_nothing,
        )
        return AskedAnswer.model_validate(self._with_remark(answer.as_json()))

    def brief(
        self,
        patient: _Patient = None,
        now: _Now = None,
        sections: Annotated[
            list[str] | None,
            Field(description="Some of them: medicines, allergies, labs, …"),
        ] = None,
    ) -> PatientBrief:
        """Summarise a patient's record for a visit; each line cites its evidence."""
        match = self.served.find_patient(patient)
        summary = brief(
            patient=match.id,
            record=self.served.location,
            now=now,
            sections=sections or None,
            settings=self.settings,
            announce=_announce_nothing,
        )
        return PatientBrief.model_validate(self._with_remark(summary.as_json()))

    def create_resource(
        self,
        resource: Annotated[
            dict[str, Any], Field(description="An R4 resource without id.")
        ],
    ) -> WrittenResource:
        """Add an Observation, MedicationRequest or ServiceRequest in memory, where allowed."""
        if self.writer is None:
            raise CallerError(READ_ONLY)
        only = self.served.only_patient
        is_refused = only is not None and refers_to_others(resource, only.id)
        result = self.writer.post(
            str(resource.get("resourceType", "")),
            json.dumps(resource, ensure_ascii=False),
            who="mcp",
            against=[_OTHER_PATIENT] if is_refused else [],
        )
        findings = [finding.text for finding in result.findings]
        if result.stored is None:
            raise CallerError("\n".join(["Nothing was written.", *findings]))
        return WrittenResource(
            id=resource_reference(result.stored),
            resource=result.stored,
            findings=tuple(findings),
            remark=IN_MEMORY,
        )

    def _with_remark(self, content: dict[str, Any]) -> dict[str, Any]:
        """Add that what a client wrote was not read, where that may matter."""
        if self.served.is_written:
            remark = "Resources that were added in memory were not read for this."
            content = {**content, "remarks": [*content["remarks"], remark]}
        return content


def _announce_nothing(_: object) -> None:
    """Announce nothing at each call: the command says where text goes when it starts."""


def _answered_query(result: QueryResult, limit: int) -> AnsweredQuery:
    """Return a query with its rows: the chosen ones first, then the latest ones."""
    others = [row for row in reversed(result.rows) if not row.chosen]
    rows = []
    for row in [*result.chosen, *others][:limit]:
        rows.append(
            QueryRow(
                evidence=row.refs,
                name=row.name,
                time=_time_text(row.time),
                end=_time_text(row.end),
                value=row.value,
                unit=row.unit,
                text=row.text,
                facts=row.facts,
                chosen=row.chosen,
            )
        )
    query = result.query
    return AnsweredQuery(
        read_as=query_text(query),
        query=query.model_dump(mode="json", exclude_defaults=True),
        kind=result.answer.kind,
        values=result.answer.values,
        unit=result.answer.unit,
        rows=tuple(rows),
        row_count=len(result.rows),
        warnings=result.warnings,
        searched=result.searched,
    )


def _time_text(time: datetime | None) -> str:
    """Return a time as ISO 8601; empty for none."""
    return time.isoformat() if time else ""
