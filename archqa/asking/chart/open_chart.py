"""What is opened of a patient before a question is answered: resources, notes, names, the time."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property

from archqa.asking.answer import Answer
from archqa.asking.candidates import PatientMatch
from archqa.asking.chart.note_answer import NoteAnswerer
from archqa.asking.record import record_question
from archqa.asking.record_grammar import PatientQueries, answer_by_grammar
from archqa.chart.chart_notes import ChartNotes
from archqa.chart.note_findings import NoteFinder
from archqa.chart.open_notes import NoteOpener
from archqa.chart.templated import own_texts
from archqa.engine.sentence_encoder import default_encoder
from archqa.fhir import Record
from archqa.notes.documents import Document
from archqa.query.everyday import patient_vocabulary

CONVENTIONS = "clinical"


class OpenChart:
    """A patient's chart at the time of a question, read by one thread."""

    def __init__(
        self, record: Record, patient: PatientMatch, now: datetime, given: tuple[Document, ...]
    ) -> None:
        self.patient = patient
        self.now = now
        self._record = record
        self.vocabulary = patient_vocabulary(record, patient.id)
        self.notes: ChartNotes = NoteOpener(record, _encode).open(patient.id, *given)

    @cached_property
    def texts(self) -> list[int]:
        """The indices of the sentences that say something which the resources do not."""
        displays = frozenset(display.casefold() for display in self.vocabulary.displays)
        return own_texts(self.notes.texts, displays)

    @cached_property
    def note_answerer(self) -> NoteAnswerer:
        """Answers from the notes."""
        finder = NoteFinder(self.notes, _encode, self.texts)
        return NoteAnswerer(finder, self.vocabulary, self.now.date())

    @property
    def ask_record(self) -> Callable[[str], Answer]:
        """Answers a question in everyday words from the resources, without a model."""
        queries = PatientQueries(self._record, self.patient.id, self.now, CONVENTIONS)

        def ask(question: str) -> Answer:
            asked = record_question(question, self.patient.id)
            return answer_by_grammar(asked, self.now, queries)

        return ask

    def remarks(self) -> Iterator[str]:
        """Yield which documents were not read, by the reason."""
        reasons = Counter(document.reason for document in self.notes.unread)
        for reason, count in reasons.items():
            yield f"Documents not read: {count} ({reason})."


def _encode(texts: list[str]):  # type: ignore[no-untyped-def]
    return default_encoder().encode(texts)
