"""What is opened of a patient before a question is answered: resources, notes, names, the time."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property

from archqa.asking.answer import Answer
from archqa.asking.candidates import PatientMatch
from archqa.asking.chart.note_answer import NoteAnswerer
from archqa.asking.record import CONVENTIONS, record_question
from archqa.asking.record_grammar import PatientQueries, answer_by_grammar
from archqa.asking.record_numbers import counted
from archqa.chart.chart_notes import ChartNotes
from archqa.chart.encoding import encode, remembered_vectors
from archqa.chart.note_findings import NoteFinder
from archqa.chart.note_search import texts_with_term
from archqa.chart.open_notes import NoteOpener
from archqa.chart.search_terms import concept_term, content_words
from archqa.chart.templated import own_texts
from archqa.engine.wordpiece import tokenize_text
from archqa.fhir import Record, Resource
from archqa.notes.documents import Document
from archqa.query.everyday import patient_vocabulary
from archqa.terminology.concepts import find_concepts

_SEARCHED = {
    "Observation": ("observation", "observations"),
    "Condition": ("diagnosis", "diagnoses"),
    "MedicationRequest": ("medication order", "medication orders"),
    "Procedure": ("procedure", "procedures"),
    "Immunization": ("immunization", "immunizations"),
    "AllergyIntolerance": ("allergy", "allergies"),
}
"""What the resources of a type are called where it is said what was searched."""


class OpenChart:
    """A patient's chart at the time of a question, read by one thread at a time.

    `conventions` say how queries are interpreted, `extra_notes` are not in the record. Where the
    time of the question was stated, notes and rows dated after it are left out.
    """

    def __init__(
        self,
        record: Record,
        patient: PatientMatch,
        now: datetime,
        extra_notes: tuple[Document, ...] = (),
        conventions: str = CONVENTIONS,
        *,
        is_time_stated: bool = False,
    ) -> None:
        self.patient = patient
        self.now = now
        self.queries = PatientQueries(
            record, patient.id, now, conventions, is_time_stated=is_time_stated
        )
        self.vocabulary = patient_vocabulary(record, patient.id)
        opener = NoteOpener(record, remembered_vectors.encode)
        all_notes = opener.open(patient.id, *extra_notes)
        day = now.date().isoformat()
        self.notes: ChartNotes = all_notes.until(day) if is_time_stated else all_notes
        self._later_notes = len(all_notes.documents) - len(self.notes.documents)

    @cached_property
    def texts(self) -> list[int]:
        """The indices of the sentences that say something which the resources do not."""
        displays = frozenset(display.casefold() for display in self.vocabulary.displays)
        own = own_texts(self.notes.texts, displays)
        return [index for index in own if self.notes.places[index]]

    @cached_property
    def note_answerer(self) -> NoteAnswerer:
        """Answers from the notes."""
        finder = NoteFinder(self.notes, encode, self.texts)
        return NoteAnswerer(finder, self.vocabulary, self.now.date(), self._encounters)

    def _encounters(self) -> Iterator[Resource]:
        return self.queries.record.search_all("Encounter", {"patient": self.patient.id})

    def ask_record(self, question: str, context: str = "") -> Answer:
        """Return the answer of the resources to a question in everyday words, without a model."""
        asked = record_question(question, self.patient.id, context, self.now)
        return answer_by_grammar(asked, self.now, self.queries)

    def is_of_notes(self, question: str) -> bool:
        """Whether the notes speak of something that a question names."""
        of_own = set(self.texts)
        terms = (concept_term(match.concept) for match in find_concepts(question))
        return any(not of_own.isdisjoint(texts_with_term(self.notes, term)) for term in terms)

    def extent(self) -> str:
        """Return what there is to search, such as "204 notes, 1,050 observations"."""
        counts = self.queries.record.counts(self.patient.id)
        kinds = [(counts.get(name, 0), *words) for name, words in _SEARCHED.items()]
        of_notes = (len(self.notes.documents), "note", "notes")
        return ", ".join(counted(*kind) for kind in [of_notes, *kinds] if kind[0])

    def has_unknown_word(self, words: Iterable[str]) -> bool:
        """Whether one of the words is neither in the notes nor one that the encoder knows whole."""
        single = (word for text in words for word in content_words(text))
        return any(
            len(tokenize_text(word)) > 1 and not self.notes.with_word(word) for word in single
        )

    def remarks(self) -> Iterator[str]:
        """Yield which documents were not read, by the reason, and how many were left out."""
        if self._later_notes:
            later = counted(self._later_notes, "note", "notes")
            yield f"Left out, since dated after the question: {later}."
        reasons = Counter(document.reason for document in self.notes.unread)
        for reason, count in reasons.items():
            yield f"Documents not read: {count} ({reason})."
