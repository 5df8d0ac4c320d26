"""Short questions of people, with the sentences that answer them: what the answer finder learns from.

`data/further/asked.jsonl` is about fictional notes of the repository. `asked_reports.jsonl` and
`asked_held_out.jsonl`, which is for calibration alone, are about transcribed reports of
www.mtsamples.com, whose texts are not in the repository: the files have character offsets, and the
texts are read from a file of the caller's (`file` and `text` of each report). `data/README.md`
documents origin and format.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.evidence_overlap import Offsets, is_same_evidence
from archqa.core.id_lists import list_ids
from archqa.core.value import FrozenModel
from archqa.engine.training.auxiliary_corpus import FORMAT_HINT, Note, note_case, read_rows
from archqa.errors import InputError
from archqa.notes.sentences import split_note

ASKED_FILE = "asked.jsonl"
ASKED_REPORTS_FILE = "asked_reports.jsonl"
HELD_OUT_FILE = "asked_held_out.jsonl"


class AskedQuestion(NamedTuple):
    """A question about a note. `groups` are of indices of sentences, of which one each suffices.

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


class NoteQuestion(FrozenModel):
    """A line of `asked.jsonl`: `essential` and `tempting` are sentence ids."""

    note: str
    question: str
    type: str = ""
    essential: tuple[tuple[str, ...], ...]
    tempting: tuple[str, ...] = ()
    hard: bool = False
    answer: str = ""
    why: str = ""


class ReportQuestion(FrozenModel):
    """A line about a report: `essential` and `tempting` are characters of the report."""

    report: str
    question: str
    type: str = ""
    essential: tuple[tuple[Offsets, ...], ...]
    tempting: tuple[Offsets, ...] = ()
    hard: bool = False
    answer: str = ""
    why: str = ""


def read_asked_corpus(folder: Path, reports: Path) -> tuple[AskedQuestion, ...]:
    """Read the questions for training, about a folder's notes and about the reports of a file.

    Raises InputError with every invalid line.
    """
    about_reports = _read_report_questions(folder / ASKED_REPORTS_FILE, reports)
    return (*_read_note_questions(folder), *about_reports)


def read_held_out(folder: Path, reports: Path) -> tuple[AskedQuestion, ...]:
    """Read the questions for calibration. Raises InputError with every invalid line."""
    return tuple(_read_report_questions(folder / HELD_OUT_FILE, reports))


def _read_note_questions(folder: Path) -> Iterator[AskedQuestion]:
    notes: dict[str, Case] = {}
    for _, note in read_rows(folder / "notes.jsonl", Note):
        notes[note.note] = note_case(note)
    path = folder / ASKED_FILE
    rows = read_rows(path, NoteQuestion)
    mistakes = []
    for number, row in rows:
        if row.note not in notes:
            mistakes.append(f":{number}: there is no note {row.note}.")
        elif unknown := _unknown_ids(row, notes[row.note]):
            mistakes.append(f":{number}: the note has no sentence {list_ids(unknown)}.")
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    for _, row in rows:
        yield _note_question(row, notes[row.note])


def _unknown_ids(row: NoteQuestion, note: Case) -> list[str]:
    ids = {sentence_id for group in row.essential for sentence_id in group}
    return sorted((ids | set(row.tempting)) - set(note.sentence_ids))


def _note_question(row: NoteQuestion, note: Case) -> AskedQuestion:
    index_of_id = {sentence_id: index for index, sentence_id in enumerate(note.sentence_ids)}
    groups = []
    for group in row.essential:
        groups.append(tuple(index_of_id[sentence_id] for sentence_id in group))
    return AskedQuestion(
        note=row.note,
        question=row.question,
        sentences=tuple(sentence.text for sentence in note.sentences),
        groups=tuple(groups),
        tempting=tuple(index_of_id[sentence_id] for sentence_id in row.tempting),
    )


def _read_report_questions(path: Path, reports: Path) -> Iterator[AskedQuestion]:
    """Yield the questions about the reports that the caller's file has."""
    texts = _read_reports(reports)
    for _, row in read_rows(path, ReportQuestion):
        if row.report in texts:
            yield _report_question(row, texts[row.report])


def _read_reports(path: Path) -> Mapping[str, str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return {report["file"]: report["text"] for report in json.load(file)}
    except (OSError, ValueError, KeyError, TypeError):
        fix = "It is a gzipped JSON list of objects with `file` and `text`."
        raise InputError(path, [": cannot be read."], fix) from None


def _report_question(row: ReportQuestion, text: str) -> AskedQuestion:
    sentences = split_note(text)
    offsets = []
    for sentence in sentences:
        start = sentence.start_char_index or 0
        offsets.append((start, start + len(sentence.text)))
    groups = [_covering(group, offsets) for group in row.essential]
    return AskedQuestion(
        note=row.report,
        question=row.question,
        sentences=tuple(sentence.text for sentence in sentences),
        groups=tuple(groups),
        tempting=_covering(row.tempting, offsets),
    )


def _covering(stretches: tuple[Offsets, ...], sentences: list[Offsets]) -> tuple[int, ...]:
    """Return the sentences that have half of a stretch, or half of which a stretch has."""
    indices = []
    for index, sentence in enumerate(sentences):
        if any(is_same_evidence(sentence, stretch) for stretch in stretches):
            indices.append(index)
    return tuple(indices)
