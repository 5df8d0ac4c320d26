"""Asks the resources of a record: the everyday grammar reads a question whole, or names what it cannot."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.clock import stated_time
from archqa.asking.record_answer import (
    Reading,
    declined_answer,
    not_understood_answer,
    record_answer,
)
from archqa.fhir import Record, Resource
from archqa.query import CannotExecute, Chart, Query, execute
from archqa.query.conventions import at_stated_time, get_conventions
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.time_windows import cutoff, resolve_now
from archqa.query.questions.everyday import (
    Declined,
    NotUnderstood,
    patient_vocabulary,
    read_question,
)
from archqa.query.questions.everyday.declining import decline_reasons
from archqa.query.wording.details import MAX_LINES
from archqa.query.wording.words import listed
from archqa.settings import Settings

if TYPE_CHECKING:
    from archqa.tasks.fhir_agentbench.settings import Conventions

MAX_LINES_OF_ALL = 200
"""Lines of an answer to "show all": what a page of a terminal still scrolls through."""

CONVENTIONS: "Conventions" = "clinical"
"""How questions are interpreted outside a benchmark."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def conventions_of(settings: Settings) -> "Conventions":
    """The conventions set for the pipeline of questions to a record, else those of clinical use."""
    if settings.pipelines is None:
        return CONVENTIONS
    from archqa.tasks.fhir_agentbench.settings import PIPELINE_SETTINGS

    name = settings.pipeline
    if name not in PIPELINE_SETTINGS:
        name = "planner" if settings.prefers_model_pipeline else "embedded"
    section = getattr(settings.pipelines, name, None)
    return getattr(section, "conventions", None) or CONVENTIONS


class PatientQueries:
    """Carries out queries about one patient at one time, each once.

    Where that time was stated, rows dated after it are left out, with a warning.
    """

    def __init__(
        self,
        record: Record,
        patient_id: str,
        now: datetime,
        conventions: str = CONVENTIONS,
        *,
        is_time_stated: bool = False,
    ) -> None:
        self.record = record
        self.chart = Chart(record, patient_id)
        self.now = now
        self.is_time_stated = is_time_stated
        self._time = now.replace(tzinfo=None).isoformat(timespec="seconds")
        self._conventions = (
            at_stated_time(conventions) if is_time_stated else conventions
        )
        self._results: dict[Query, QueryResult] = {}

    @property
    def cutoff(self) -> datetime | None:
        """The first moment of which rows are left out as later; None if all count."""
        conventions = get_conventions(self._conventions)
        return cutoff(resolve_now(self._time, conventions), conventions)

    @property
    def patient(self) -> Resource:
        """The Patient resource; its id alone if the record has none."""
        return self.chart.patient_resource or {"id": self.chart.patient}

    def __call__(self, query: Query) -> QueryResult:
        """Return what a query finds. Raises `CannotExecute`, and as the record does."""
        query = query.model_copy(update={"now": query.now or self._time})
        if query not in self._results:
            self._results[query] = execute(
                query,
                self.record,
                self.chart.patient,
                self._conventions,
                chart=self.chart,
            )
        return self._results[query]

    def readings(self, queries: Iterable[Query]) -> list[Reading]:
        """Return queries, at the time of the question, with what they find."""
        return [(result.query, result) for result in map(self, queries)]


class GrammarReading(NamedTuple):
    """The grammar's answer to a question, and the queries that it rests on.

    `remarks`, which the answer has too, say what was not taken into account, or as what.
    """

    answer: Answer
    queries: tuple[Query, ...] = ()
    remarks: tuple[str, ...] = ()


def answer_by_grammar(
    question: str, queries: PatientQueries, context: str = ""
) -> Answer:
    """Return the answer, or which words the grammar could not take into account.

    Raises `FhirError` and `ServerUnavailable` as the record does.
    """
    return without_context(read_by_grammar(question, queries).answer, context)


def without_context(answer: Answer, context: str) -> Answer:
    """Return the answer; a remark says where the context was not taken into account."""
    for sentence in _SENTENCE_END.split(context.strip()):
        if sentence and stated_time(sentence) is None:
            remark = "Of the context, only the time was taken into account: a model reads all of it."
            return answer.model_copy(update={"remarks": (*answer.remarks, remark)})
    return answer


def read_by_grammar(question: str, queries: PatientQueries) -> GrammarReading:
    """Return the grammar's reading of a question with its answer. Raises as `answer_by_grammar`."""
    vocabulary = patient_vocabulary(queries.record, queries.chart.patient)
    reading = read_question(question, vocabulary, today=queries.now.date())
    if isinstance(reading, NotUnderstood):
        return GrammarReading(
            not_understood_answer(
                question, reading.words, reading.reason, queries.patient
            )
        )
    if isinstance(reading, Declined):
        answer = declined_with_facts(question, reading.kind, reading.related, queries)
        return GrammarReading(answer, reading.related)
    answer = answer_of_queries(
        question,
        reading.queries,
        queries,
        joined=reading.joined,
        asks_all=reading.asks_all,
    )
    remarks = [f"“{words}” was taken for the patient." for words in reading.assumed]
    remarks += [
        f"Not taken into account: “{sentence}”." for sentence in reading.left_out
    ]
    if reading.unknown:
        words = listed([f'"{word}"' for word in reading.unknown])
        remarks.append(f"Not understood: {words}. The rest is answered.")
    changes = {
        "remarks": (*answer.remarks, *remarks),
        "is_partial": answer.is_partial or bool(reading.left_out or reading.unknown),
        "not_understood": (*answer.not_understood, *reading.unknown),
    }
    answer = answer.model_copy(update=changes)
    return GrammarReading(answer, reading.queries, tuple(remarks))


def answer_of_queries(
    question: str,
    asked: Iterable[Query],
    queries: PatientQueries,
    *,
    joined: Literal["and", "or"] = "and",
    asks_all: bool = False,
) -> Answer:
    """Return what queries find in words; not understood where one cannot be carried out.

    Raises as the record does.
    """
    try:
        return record_answer(
            question,
            queries.readings(asked),
            queries.patient,
            queries.record,
            joined=joined,
            execute=queries,
            max_lines=MAX_LINES_OF_ALL if asks_all else MAX_LINES,
        )
    except CannotExecute as problem:
        reason = " ".join(str(problem).split())
        return not_understood_answer(question, (), reason, queries.patient)


def declined_with_facts(
    question: str, kind: str, related: Iterable[Query], queries: PatientQueries
) -> Answer:
    """Return that a judgement of some kind is not made, with what the related queries find.

    Raises as the record does.
    """
    try:
        readings = queries.readings(related)
    except CannotExecute:
        readings = []
    return declined_answer(
        question,
        decline_reasons()[kind],
        readings,
        queries.patient,
        queries.record,
        execute=queries,
    )
