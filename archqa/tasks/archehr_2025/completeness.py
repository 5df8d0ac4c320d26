"""What a case needs to be answered: a question, and sentences to cite."""

from collections.abc import Iterator

from archqa.core.case import Case
from archqa.tasks.files.mistakes import is_blank
from archqa.tasks.load_remarks import LoadRemarks
from archqa.tasks.task import MissingPart

_NO_QUESTION = MissingPart(
    "patient_narrative",
    "holds no question; give the case a patient_narrative or a clinician_question.",
)
_NO_SENTENCES = MissingPart(
    "sentences",
    "holds no sentences; list them, or give the note's text as note_excerpt.",
)


def with_sentences(case: Case, remarks: LoadRemarks) -> Case:
    """The case with its note split into sentences, if it lists none and has the note's text."""
    if case.sentences or is_blank(case.note_excerpt):
        return case
    from archqa.notes.sentences import split_note  # Slow to import, and seldom needed.

    sentences = split_note(case.note_excerpt)
    remarks.add_split(case.id, len(sentences))
    return case.model_copy(update={"sentences": sentences})


def missing_parts(case: Case) -> Iterator[MissingPart]:
    """What is missing of a question and a note."""
    if not _has_question(case):
        yield _NO_QUESTION
    if all(is_blank(sentence.text) for sentence in case.sentences):
        yield _NO_SENTENCES


def _has_question(case: Case) -> bool:
    phrases = [phrase.text for phrase in case.patient_question]
    texts = (case.patient_narrative, case.clinician_question, *phrases)
    return not all(map(is_blank, texts))
