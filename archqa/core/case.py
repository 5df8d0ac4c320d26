"""A case: one patient's message, the clinician's reading of it, and the note excerpt that must answer it.

Source: ArchEHR-QA 2025 and 2026 data files (`archehr-qa.xml`); fields that a release withholds are None or empty.
"""

from functools import cached_property

from archqa.core import html
from archqa.core.value import FrozenModel


class Sentence(FrozenModel):
    """One numbered sentence of a note. Its id is an opaque string, never a position."""

    id: str
    text: str
    paragraph_id: str = ""
    start_char_index: int | None = None


class Phrase(FrozenModel):
    """A span of the patient's message that holds the question itself."""

    id: str
    text: str
    start_char_index: int | None = None


class Case(FrozenModel):
    """One question and the record it must be answered from."""

    id: str
    patient_narrative: str = ""
    patient_question: tuple[Phrase, ...] = ()
    clinician_question: str = ""
    note_excerpt: str = ""
    sentences: tuple[Sentence, ...] = ()
    clinical_specialty: str = ""
    title: str = ""
    answer_sentences: tuple[Phrase, ...] = ()

    @cached_property
    def sentence_ids(self) -> tuple[str, ...]:
        """Ids in note order."""
        return tuple(sentence.id for sentence in self.sentences)

    @cached_property
    def text_of(self) -> dict[str, str]:
        """Sentence id to sentence text, in note order."""
        return {sentence.id: sentence.text for sentence in self.sentences}

    def in_note_order(self, ids: frozenset[str] | set[str]) -> tuple[str, ...]:
        """Those of `ids` that the note has, in the note's order."""
        return tuple(each for each in self.sentence_ids if each in ids)

    def _repr_html_(self) -> str:
        asked = (("Question", self.clinician_question), ("Patient", self.patient_narrative))
        note = html.table(
            ("id", "sentence"),
            ((html.text(each.id), html.text(each.text)) for each in self.sentences),
        )
        return "".join(html.paragraph(name, words) for name, words in asked) + note
