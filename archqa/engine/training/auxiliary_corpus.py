"""The auxiliary corpus: labelled questions that only the cross-encoder is trained on.

The files are `data/further/{questions,alike,near,notes}.jsonl` of the repository; `data/README.md`
documents their origin. No score is ever computed on them; and where a case with a key is scored,
the cross-encoder has been trained on nothing about the case's note.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from archqa.core.case import Case, Phrase, Sentence
from archqa.core.id_lists import list_ids
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.core.value import FrozenModel
from archqa.errors import InputError

FORMAT_HINT = "data/README.md shows the format."

Row = TypeVar("Row", bound=FrozenModel)


class Note(FrozenModel):
    """A note by its name; every sentence is an id, a paragraph id and a text."""

    note: str
    style: str
    sentences: tuple[tuple[str, str, str], ...]


class Question(FrozenModel):
    """A patient's message about a note, its phrases that ask, and the ids of labelled sentences."""

    note: str
    narrative: str
    question: tuple[str, ...]
    clinician_question: str
    essential: tuple[str, ...]
    supplementary: tuple[str, ...]


class AuxiliaryCase(NamedTuple):
    """A labelled case and the name of its note."""

    note: str
    case: Case
    key: CaseKey


class AuxiliaryCorpus(NamedTuple):
    """Labelled cases by their similarity to the training cases.

    `questions` ask about any matter of a note, `alike` are written and labelled in the manner of
    the training cases; both are about notes of their own. `training_note_cases` are questions
    about the notes of the training cases.
    """

    questions: tuple[AuxiliaryCase, ...] = ()
    alike: tuple[AuxiliaryCase, ...] = ()
    training_note_cases: tuple[AuxiliaryCase, ...] = ()

    def all_cases(self) -> tuple[AuxiliaryCase, ...]:
        """Return every case of the corpus, in the order of the fields."""
        return (*self.questions, *self.alike, *self.training_note_cases)


def read_corpus(
    folder: Path, training_cases: Mapping[str, Case] = MappingProxyType({})
) -> AuxiliaryCorpus:
    """Read a folder; `near.jsonl` is optional. Raises InputError with every invalid line.

    `training_cases` are named `<file>/<id>`, as `train-real/12`; questions in `near.jsonl` about
    other notes are skipped.
    """
    notes = {}
    for _, note in read_rows(folder / "notes.jsonl", Note):
        notes[note.note] = note_case(note)
    return AuxiliaryCorpus(
        questions=_read_questions(folder / "questions.jsonl", notes),
        alike=_read_questions(folder / "alike.jsonl", notes),
        training_note_cases=_read_training_note_questions(folder / "near.jsonl", training_cases),
    )


def _read_questions(path: Path, notes: Mapping[str, Case]) -> tuple[AuxiliaryCase, ...]:
    return _labelled_cases(path, read_rows(path, Question), notes)


def _read_training_note_questions(
    path: Path, notes: Mapping[str, Case]
) -> tuple[AuxiliaryCase, ...]:
    if not path.exists():
        return ()
    rows = []
    for number, question in read_rows(path, Question):
        if question.note in notes:
            rows.append((number, question))
    return _labelled_cases(path, rows, notes)


def _labelled_cases(
    path: Path,
    rows: list[tuple[int, Question]],
    notes: Mapping[str, Case],
) -> tuple[AuxiliaryCase, ...]:
    """Label the notes' sentences by the questions. Raises InputError with every mistake."""
    mistakes = []
    for number, question in rows:
        mistakes += [f":{number}: {mistake}" for mistake in _mistakes(question, notes)]
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    cases = []
    for number, question in rows:
        case_id = f"{question.note}+{number}"
        cases.append(_labelled_case(case_id, question, notes[question.note]))
    return tuple(cases)


def read_rows(path: Path, row_type: type[Row]) -> list[tuple[int, Row]]:
    """Return every line with its number. Raises InputError with every invalid line."""
    rows = []
    mistakes = []
    for number, line in enumerate(_read_lines(path), start=1):
        try:
            rows.append((number, row_type.model_validate_json(line)))
        except ValidationError as malformed:
            mistakes += [f":{number}: {mistake}" for mistake in _validation_messages(malformed)]
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return rows


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise InputError(path, [": does not exist."], "It is part of the repository.") from None


def _validation_messages(malformed: ValidationError) -> Iterator[str]:
    for error in malformed.errors():
        field = ".".join(map(str, error["loc"]))
        yield f"{field}: {error['msg']}"


def _mistakes(question: Question, notes: Mapping[str, Case]) -> Iterator[str]:
    if question.note not in notes:
        yield f"there is no note {question.note}."
        return
    essential, supplementary = set(question.essential), set(question.supplementary)
    unknown = (essential | supplementary) - set(notes[question.note].sentence_ids)
    if unknown:
        yield f"the note {question.note} has no sentence {list_ids(sorted(unknown))}."
    if not essential or essential & supplementary:
        yield "a question needs an essential sentence, and none that is supplementary as well."
    if not all(phrase in question.narrative for phrase in question.question):
        yield "the question is no part of the narrative."


def note_case(note: Note) -> Case:
    """Return a case that has the sentences of the note and no question."""
    sentences = []
    for sentence_id, paragraph_id, text in note.sentences:
        sentence = Sentence(id=sentence_id, paragraph_id=paragraph_id, text=text)
        sentences.append(sentence)
    return Case(id=note.note, sentences=tuple(sentences))


def _labelled_case(case_id: str, question: Question, note_case: Case) -> AuxiliaryCase:
    phrases = []
    for index, phrase in enumerate(question.question):
        phrases.append(Phrase(id=str(index), text=phrase))
    case = note_case.model_copy(
        update={
            "id": case_id,
            "title": "",
            "patient_narrative": question.narrative,
            "patient_question": tuple(phrases),
            "clinician_question": question.clinician_question,
        }
    )
    labels = dict.fromkeys(note_case.sentence_ids, Relevance.NOT_RELEVANT)
    labels |= dict.fromkeys(question.supplementary, Relevance.SUPPLEMENTARY)
    labels |= dict.fromkeys(question.essential, Relevance.ESSENTIAL)
    return AuxiliaryCase(question.note, case, CaseKey(case_id=case_id, labels=labels))
