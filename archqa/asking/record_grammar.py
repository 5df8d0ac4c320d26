"""Answers a question about a patient by the everyday grammar: every word counts, or is named."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from archqa.asking.answer import Answer
from archqa.asking.clock import stated_time
from archqa.asking.record_answer import (
    Reading,
    declined_answer,
    not_understood_answer,
    record_answer,
)
from archqa.asking.record_paraphrase import read_paraphrase
from archqa.core.question import RecordQuestion
from archqa.fhir import Record, Resource
from archqa.query import CannotExecute, Chart, Query, execute
from archqa.query.conventions import at_stated_time, get_conventions
from archqa.query.everyday import (
    Declined,
    NotUnderstood,
    Understood,
    Vocabulary,
    patient_vocabulary,
    read_question,
)
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.later_rows import cutoff
from archqa.query.execution.time_windows import resolve_now

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class PatientQueries:
    """Carries out queries about one patient at one time, each once.

    Where that time was stated, rows dated after it are left out, with a warning.
    """

    def __init__(
        self,
        record: Record,
        patient_id: str,
        now: datetime,
        conventions: str,
        *,
        is_time_stated: bool = False,
    ) -> None:
        self._chart = Chart(record, patient_id)
        self._now = now.replace(tzinfo=None).isoformat(timespec="seconds")
        self._conventions = at_stated_time(conventions) if is_time_stated else conventions
        self._results: dict[Query, QueryResult] = {}

    @property
    def chart(self) -> Chart:
        """The patient's resources that were fetched."""
        return self._chart

    @property
    def record(self) -> Record:
        """The record that is asked."""
        return self._chart.record

    @property
    def cutoff(self) -> datetime | None:
        """The first moment of which rows are left out as later; None if all count."""
        conventions = get_conventions(self._conventions)
        return cutoff(resolve_now(self._now, conventions), conventions)

    @property
    def patient(self) -> Resource:
        """The Patient resource; its id alone if the record has none."""
        return self._chart.patient_resource or {"id": self._chart.patient}

    def __call__(self, query: Query) -> QueryResult:
        """Return what a query finds. Raises `CannotExecute`, and as the record does."""
        query = query.model_copy(update={"now": query.now or self._now})
        if query not in self._results:
            self._results[query] = execute(
                query, self.record, self._chart.patient, self._conventions, chart=self._chart
            )
        return self._results[query]

    def readings(self, queries: Iterable[Query]) -> list[Reading]:
        """Return queries, at the time of the question, with what they find."""
        return [(result.query, result) for result in map(self, queries)]


def answer_by_grammar(question: RecordQuestion, now: datetime, queries: PatientQueries) -> Answer:
    """Return the answer, or which words the grammar could not take into account.

    Raises `FhirError` and `ServerUnavailable` as the record does.
    """
    text = question.question
    vocabulary = patient_vocabulary(queries.record, question.patient_fhir_id)
    reading = read_question(text, vocabulary, today=now.date())
    if isinstance(reading, NotUnderstood):
        answer = _paraphrase_answer(text, vocabulary, now, queries) or not_understood_answer(
            text, reading.words, reading.reason, queries.patient
        )
    elif isinstance(reading, Declined):
        answer = declined_with_facts(text, reading.reason, reading.related, queries)
    else:
        answer = answer_of_queries(text, reading.queries, queries, joined=reading.joined)
        answer = answer.model_copy(update={"remarks": (*answer.remarks, *_assumptions(reading))})
    remarks = (*answer.remarks, *_unread_context(question.assumption))
    return answer.model_copy(update={"remarks": remarks})


def _paraphrase_answer(
    question: str, vocabulary: Vocabulary, now: datetime, queries: PatientQueries
) -> Answer | None:
    """Return the answer to a question in free words, with a remark that says how it was read."""
    reading = read_paraphrase(question, vocabulary, now.date())
    if reading is None:
        return None
    answer = answer_of_queries(question, reading.queries, queries, joined=reading.joined)
    sentences = dict.fromkeys(query.sentence for query in reading.queries)
    read_as = f"Read as: {' '.join(sentences)}"
    return answer.model_copy(update={"remarks": (*answer.remarks, read_as)})


def answer_of_queries(
    question: str, asked: Iterable[Query], queries: PatientQueries, *, joined: str = "and"
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
            joined="or" if joined == "or" else "and",
            execute=queries,
        )
    except CannotExecute as problem:
        reason = " ".join(str(problem).split())
        return not_understood_answer(question, (), reason, queries.patient)


def declined_with_facts(
    question: str, reason: str, related: Iterable[Query], queries: PatientQueries
) -> Answer:
    """Return that a judgement is not made, with what the related queries find.

    Raises as the record does.
    """
    try:
        readings = queries.readings(related)
    except CannotExecute:
        readings = []
    return declined_answer(
        question, reason, readings, queries.patient, queries.record, execute=queries
    )


def _assumptions(reading: Understood) -> Iterator[str]:
    """Yield who was taken for the patient, and which sentences were left out."""
    for words in reading.assumed:
        yield f"“{words}” was taken for the patient."
    for sentence in reading.left_out:
        yield f"Not taken into account: “{sentence}”."


def _unread_context(context: str) -> Iterator[str]:
    """Yield a remark if the context says more than the time of the question."""
    sentences = _SENTENCE_END.split(context.strip())
    if any(sentence and stated_time(sentence) is None for sentence in sentences):
        yield "Of the context, only the time was taken into account: a model reads all of it."
