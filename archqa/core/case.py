"""A case: a patient's message, the clinician's question behind it, and the note excerpt that must
answer it.

Source: ArchEHR-QA 2025 and 2026 data files (`archehr-qa.xml`); fields that a release withholds are
None or empty.
"""

import hashlib
import json
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
    """A span of the patient's message that is the question itself."""

    id: str
    text: str
    start_char_index: int | None = None


class Case(FrozenModel):
    """One question and the note it must be answered from."""

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
        """The ids of `ids` that the note has, in the note's order."""
        return tuple(
            sentence_id for sentence_id in self.sentence_ids if sentence_id in ids
        )

    def _repr_html_(self) -> str:
        question = html.paragraph("Question", self.clinician_question)
        message = html.paragraph("Patient", self.patient_narrative)
        rows = []
        for sentence in self.sentences:
            rows.append((html.text(sentence.id), html.text(sentence.text)))
        return question + message + html.table(("id", "sentence"), rows)


def case_digest(case: Case) -> str:
    """The sha256 of the case's message, clinician question and sentences, white space normalised,
    ids left out.
    """
    sentences = [sentence.text for sentence in case.sentences]
    texts = [case.patient_narrative, case.clinician_question, *sentences]
    normalised = [" ".join(text.split()) for text in texts]
    canonical = json.dumps(normalised, ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
