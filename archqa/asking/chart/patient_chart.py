"""A patient's record at the time of a question, opened once and asked any number of times."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

from archqa.asking.answer import Answer
from archqa.asking.candidates import PatientMatch
from archqa.asking.clock import clock, stated_time
from archqa.asking.patient import find_patient
from archqa.asking.question import Question
from archqa.asking.record import PatientQueries, answer_by_grammar, conventions_of
from archqa.fhir import Record
from archqa.query.questions.everyday import PatientVocabulary, patient_vocabulary


class PatientChart:
    """The resources of a patient, as of the time of a question; read by one thread at a time."""

    def __init__(
        self, patient: PatientMatch, queries: PatientQueries, time_remark: str = ""
    ) -> None:
        self.patient = patient
        self.queries = queries
        self.time_remark = time_remark

    @property
    def record(self) -> Record:
        """The record that is open."""
        return self.queries.record

    @property
    def now(self) -> datetime:
        """The time of the question."""
        return self.queries.now

    @cached_property
    def vocabulary(self) -> PatientVocabulary:
        """The names in the record of this patient."""
        return patient_vocabulary(self.record, self.patient.id)

    def ask_record(self, question: str, context: str = "") -> Answer:
        """Return the answer of the resources to a question in everyday words, without a model."""
        return answer_by_grammar(question, self.queries, context)

    def remarks(self) -> Iterator[str]:
        """Yield at what time the question was asked, if that was not the present."""
        if self.time_remark:
            yield self.time_remark


def open_patient_chart(question: Question, record: Record) -> PatientChart:
    """Return the chart of the patient whom a question names, at its time.

    Raises `PatientNotFound`, `SeveralPatients`, and as the record does.
    """
    patient = find_patient(record, question.patient or "")
    stated = question.options.now or stated_time(question.options.context)
    asked_at = clock(record, patient.id, stated, patient=patient.resource)
    queries = PatientQueries(
        record,
        patient.id,
        asked_at.now,
        conventions_of(question.settings),
        is_time_stated=stated is not None,
    )
    return PatientChart(patient, queries, asked_at.remark)
