"""The corpora that the networks are trained on: labelled questions about notes, in `training/data`.

The *auxiliary corpus* (`questions.jsonl`, `similar.jsonl`, `training_notes.jsonl`, `notes.jsonl`)
trains the cross-encoder alone. No score is ever computed on it; and where a case with a key is
scored, the cross-encoder has been trained on nothing about the case's note.

The *short questions* train the answer finder: `short_questions.jsonl` about fictional notes,
`short_questions_on_reports.jsonl` and, for calibration alone, `calibration_questions.jsonl` about
transcribed reports of www.mtsamples.com. The reports' texts are not in the repository: these files
have character offsets, and the texts are read from a file of the caller's (`file` and `text` of
each report).

`training/README.md` documents origin and format.
"""

import gzip
import json
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
from archqa.evaluation.asking import Offsets, is_same_evidence
from archqa.notes.sentences import split_note

DATA_DIR = Path(__file__).parent / "data"
FORMAT_HINT = "training/README.md shows the format."

Row = TypeVar("Row", bound=FrozenModel)


class NoteRow(FrozenModel):
    """A line of `notes.jsonl`; every sentence is an id, a paragraph id and a text."""

    note: str
    style: str
    sentences: tuple[tuple[str, str, str], ...]


class MessageRow(FrozenModel):
    """A patient's message about a note, its phrases that ask, and the ids of labelled sentences."""

    note: str
    narrative: str
    question: tuple[str, ...]
    clinician_question: str
    essential: tuple[str, ...]
    supplementary: tuple[str, ...]


class NoteQuestionRow(FrozenModel):
    """A short question about a note: `essential` and `tempting` are sentence ids."""

    note: str
    question: str
    type: str = ""
    essential: tuple[tuple[str, ...], ...]
    tempting: tuple[str, ...] = ()
    hard: bool = False
    answer: str = ""
    why: str = ""


class ReportQuestionRow(FrozenModel):
    """A short question about a report: `essential` and `tempting` are characters of the report."""

    report: str
    question: str
    type: str = ""
    essential: tuple[tuple[Offsets, ...], ...]
    tempting: tuple[Offsets, ...] = ()
    hard: bool = False
    answer: str = ""
    why: str = ""


class AuxiliaryCase(NamedTuple):
    """A labelled case and the name of its note."""

    note: str
    case: Case
    key: CaseKey


class AuxiliaryCorpus(NamedTuple):
    """Labelled cases by their similarity to the training cases.

    `questions` ask about any matter of a note, `similar` are written and labelled in the manner of
    the training cases; both are about notes of their own. `training_note_cases` are questions
    about the notes of the training cases.
    """

    questions: tuple[AuxiliaryCase, ...] = ()
    similar: tuple[AuxiliaryCase, ...] = ()
    training_note_cases: tuple[AuxiliaryCase, ...] = ()

    def all_cases(self) -> tuple[AuxiliaryCase, ...]:
        """Return every case of the corpus, in the order of the fields."""
        return (*self.questions, *self.similar, *self.training_note_cases)


class ShortQuestion(NamedTuple):
    """A question about a note. `groups` are of indices of sentences; one of each group suffices.

    No group: the note does not answer. `tempting` are the sentences that share the topic.
    """

    note: str
    question: str
    sentences: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    tempting: tuple[int, ...] = ()

    @property
    def answering(self) -> frozenset[int]:
        """The indices of all sentences that carry a part of the answer."""
        return frozenset(index for group in self.groups for index in group)


def read_auxiliary_corpus(
    folder: Path, training_cases: Mapping[str, Case] = MappingProxyType({})
) -> AuxiliaryCorpus:
    """Read a folder; `training_notes.jsonl` is optional. Raises InputError with every invalid line.

    `training_cases` are named `<file>/<id>`, as `train-real/12`; lines of `training_notes.jsonl`
    about other notes are skipped.
    """
    notes = _read_notes(folder)
    about_training_notes = []
    training_notes = folder / "training_notes.jsonl"
    if training_notes.exists():
        for number, row in _read_rows(training_notes, MessageRow):
            if row.note in training_cases:
                about_training_notes.append((number, row))
    questions = folder / "questions.jsonl"
    similar = folder / "similar.jsonl"
    return AuxiliaryCorpus(
        questions=_labelled_cases(questions, _read_rows(questions, MessageRow), notes),
        similar=_labelled_cases(similar, _read_rows(similar, MessageRow), notes),
        training_note_cases=_labelled_cases(
            training_notes, about_training_notes, training_cases
        ),
    )


def read_short_questions(folder: Path, reports: Path) -> tuple[ShortQuestion, ...]:
    """Read the questions for training, about a folder's notes and about the reports of a file.

    Raises InputError with every invalid line.
    """
    about_reports = _read_report_questions(
        folder / "short_questions_on_reports.jsonl", reports
    )
    return (*_read_note_questions(folder), *about_reports)


def read_calibration_questions(
    folder: Path, reports: Path
) -> tuple[ShortQuestion, ...]:
    """Read the questions for calibration. Raises InputError with every invalid line."""
    return tuple(
        _read_report_questions(folder / "calibration_questions.jsonl", reports)
    )


def _read_rows(path: Path, row_type: type[Row]) -> list[tuple[int, Row]]:
    """Return every line with its number. Raises InputError with every invalid line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise InputError(
            path, [": does not exist."], "It is part of the repository."
        ) from None
    rows = []
    mistakes = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append((number, row_type.model_validate_json(line)))
        except ValidationError as malformed:
            for error in malformed.errors():
                field = ".".join(map(str, error["loc"]))
                mistakes.append(f":{number}: {field}: {error['msg']}")
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return rows


def _read_notes(folder: Path) -> dict[str, Case]:
    """Return the notes of a folder by name, as cases without a question."""
    notes = {}
    for _, row in _read_rows(folder / "notes.jsonl", NoteRow):
        sentences = []
        for sentence_id, paragraph_id, text in row.sentences:
            sentences.append(
                Sentence(id=sentence_id, paragraph_id=paragraph_id, text=text)
            )
        notes[row.note] = Case(id=row.note, sentences=tuple(sentences))
    return notes


def _labelled_cases(
    path: Path,
    rows: list[tuple[int, MessageRow]],
    notes: Mapping[str, Case],
) -> tuple[AuxiliaryCase, ...]:
    """Label the notes' sentences by the questions. Raises InputError with every mistake."""
    mistakes = []
    for number, row in rows:
        mistakes += [f":{number}: {mistake}" for mistake in _mistakes(row, notes)]
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    cases = []
    for number, row in rows:
        cases.append(_labelled_case(f"{row.note}+{number}", row, notes[row.note]))
    return tuple(cases)


def _mistakes(row: MessageRow, notes: Mapping[str, Case]) -> Iterator[str]:
    if row.note not in notes:
        yield f"there is no note {row.note}."
        return
    essential, supplementary = set(row.essential), set(row.supplementary)
    unknown = (essential | supplementary) - set(notes[row.note].sentence_ids)
    if unknown:
        yield f"the note {row.note} has no sentence {list_ids(sorted(unknown))}."
    if not essential or essential & supplementary:
        yield "a question needs an essential sentence, and none that is supplementary as well."
    if not all(phrase in row.narrative for phrase in row.question):
        yield "the question is no part of the narrative."


def _labelled_case(case_id: str, row: MessageRow, note: Case) -> AuxiliaryCase:
    phrases = []
    for index, phrase in enumerate(row.question):
        phrases.append(Phrase(id=str(index), text=phrase))
    case = note.model_copy(
        update={
            "id": case_id,
            "title": "",
            "patient_narrative": row.narrative,
            "patient_question": tuple(phrases),
            "clinician_question": row.clinician_question,
        }
    )
    labels = dict.fromkeys(note.sentence_ids, Relevance.NOT_RELEVANT)
    labels |= dict.fromkeys(row.supplementary, Relevance.SUPPLEMENTARY)
    labels |= dict.fromkeys(row.essential, Relevance.ESSENTIAL)
    return AuxiliaryCase(row.note, case, CaseKey(case_id=case_id, labels=labels))


def _read_note_questions(folder: Path) -> Iterator[ShortQuestion]:
    notes = _read_notes(folder)
    path = folder / "short_questions.jsonl"
    rows = _read_rows(path, NoteQuestionRow)
    mistakes = []
    for number, row in rows:
        if row.note not in notes:
            mistakes.append(f":{number}: there is no note {row.note}.")
            continue
        ids = {sentence_id for group in row.essential for sentence_id in group}
        unknown = (ids | set(row.tempting)) - set(notes[row.note].sentence_ids)
        if unknown:
            mistakes.append(
                f":{number}: the note has no sentence {list_ids(sorted(unknown))}."
            )
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    for _, row in rows:
        note = notes[row.note]
        index_of_id = {
            sentence_id: index for index, sentence_id in enumerate(note.sentence_ids)
        }
        groups = []
        for group in row.essential:
            groups.append(tuple(index_of_id[sentence_id] for sentence_id in group))
        yield ShortQuestion(
            note=row.note,
            question=row.question,
            sentences=tuple(sentence.text for sentence in note.sentences),
            groups=tuple(groups),
            tempting=tuple(index_of_id[sentence_id] for sentence_id in row.tempting),
        )


def _read_report_questions(path: Path, reports: Path) -> Iterator[ShortQuestion]:
    """Yield the questions about the reports that the caller's file has."""
    try:
        with gzip.open(reports, "rt", encoding="utf-8") as file:
            texts = {report["file"]: report["text"] for report in json.load(file)}
    except (OSError, ValueError, KeyError, TypeError):
        fix = "It is a gzipped JSON list of objects with `file` and `text`."
        raise InputError(reports, [": cannot be read."], fix) from None
    for _, row in _read_rows(path, ReportQuestionRow):
        if row.report not in texts:
            continue
        sentences = split_note(texts[row.report])
        offsets = []
        for sentence in sentences:
            start = sentence.start_char_index or 0
            offsets.append((start, start + len(sentence.text)))
        yield ShortQuestion(
            note=row.report,
            question=row.question,
            sentences=tuple(sentence.text for sentence in sentences),
            groups=tuple(_overlapping(group, offsets) for group in row.essential),
            tempting=_overlapping(row.tempting, offsets),
        )


def _overlapping(
    passages: tuple[Offsets, ...], sentences: list[Offsets]
) -> tuple[int, ...]:
    """Return the sentences that share half of a passage's characters, or half of their own."""
    indices = []
    for index, sentence in enumerate(sentences):
        if any(is_same_evidence(sentence, passage) for passage in passages):
            indices.append(index)
    return tuple(indices)
