"""A patient's resources and notes, opened before a question about them is answered."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from archqa.asking.chart.note_answer import NoteAnswerer
from archqa.asking.chart.patient_chart import PatientChart
from archqa.asking.record_numbers import counted
from archqa.chart.chart_notes import ChartNotes
from archqa.chart.encoding import encode, remembered_vectors
from archqa.chart.note_findings import NoteFinder
from archqa.chart.note_search import texts_with_term
from archqa.chart.open_notes import NoteOpener
from archqa.chart.search_terms import concept_term, content_words
from archqa.chart.templated import own_texts
from archqa.engine.windows import tokenize_text
from archqa.fhir import Resource
from archqa.notes.documents import Document
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


class OpenChart(PatientChart):
    """A patient's resources and notes at the time of a question.

    `given_notes` are not in the record. Where the time of the question was stated, notes and rows
    dated after it are left out.
    """

    def __init__(self, chart: PatientChart, given_notes: tuple[Document, ...] = ()) -> None:
        super().__init__(chart.patient, chart.queries, chart.time_remark)
        opener = NoteOpener(self.record, remembered_vectors.encode)
        all_notes = opener.open(self.patient.id, *given_notes)
        day = self.now.date().isoformat()
        self.notes: ChartNotes = all_notes.until(day) if self.queries.is_time_stated else all_notes
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
        return self.record.search_all("Encounter", {"patient": self.patient.id})

    def is_of_notes(self, question: str) -> bool:
        """Whether the notes speak of something that a question names."""
        of_own = set(self.texts)
        terms = (concept_term(match.concept) for match in find_concepts(question))
        return any(not of_own.isdisjoint(texts_with_term(self.notes, term)) for term in terms)

    def extent(self) -> str:
        """Return what there is to search, such as "204 notes, 1,050 observations"."""
        counts = self.record.counts(self.patient.id)
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
        """Yield the time of the question, and which documents were not read or left out, and why."""
        yield from super().remarks()
        if self._later_notes:
            later = counted(self._later_notes, "note", "notes")
            yield f"Left out, since dated after the question: {later}."
        reasons = Counter(document.reason for document in self.notes.unread)
        for reason, count in reasons.items():
            yield f"Documents not read: {count} ({reason})."
