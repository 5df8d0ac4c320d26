"""What the reader is trained on: questions about notes that were written for it, and about notes of cases with a key.

`data/further/{questions,alike,near,notes}.jsonl` of the repository; `data/README.md` tells who wrote them. No figure is
ever taken on them; and where one is taken on a case with a key, the reader has read nothing about the case's note.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from archqa.core.case import Case, Phrase, Sentence
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.core.value import FrozenModel
from archqa.errors import InputError

Line = TypeVar("Line", bound=FrozenModel)


class Note(FrozenModel):
    """A note by its name; `sentences` are id, paragraph and text."""

    note: str
    style: str
    sentences: tuple[tuple[str, str, str], ...]


class Question(FrozenModel):
    """A message about a note, the parts of it that ask, and the ids of the sentences that the answer needs."""

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
    """Questions on any matter of a note; cases that are written and labelled as the training cases are, on notes of
    their own; and such cases on notes of the training cases.
    """

    questions: tuple[AuxiliaryCase, ...] = ()
    alike: tuple[AuxiliaryCase, ...] = ()
    training_note_cases: tuple[AuxiliaryCase, ...] = ()


def read_corpus(folder: Path, known: Mapping[str, Case] = MappingProxyType({})) -> AuxiliaryCorpus:
    """All of a folder; `near.jsonl` may be absent. Raises `InputError` with every line that does not fit.

    `known` are the training cases by `<file>/<id>`, as `train-real/12`; what is asked about others' notes is left out.
    """
    notes = {each.note: _case(each) for _, each in _lines(folder / "notes.jsonl", Note)}
    near = folder / "near.jsonl"
    return AuxiliaryCorpus(
        questions=_asked(folder / "questions.jsonl", notes),
        alike=_asked(folder / "alike.jsonl", notes),
        training_note_cases=_asked(near, known, others=True) if near.exists() else (),
    )


def _asked(
    path: Path, notes: Mapping[str, Case], *, others: bool = False
) -> tuple[AuxiliaryCase, ...]:
    """`others`: whether there may be questions on notes that are not here."""
    asked = [(at, each) for at, each in _lines(path, Question) if each.note in notes or not others]
    mistakes = [f":{at}: {why}" for at, each in asked for why in _mistakes(each, notes)]
    if mistakes:
        raise InputError(path, mistakes, "data/README.md shows the format.")
    return tuple(_labelled(f"{each.note}+{at}", each, notes[each.note]) for at, each in asked)


def _lines(path: Path, kind: type[Line]) -> Iterator[tuple[int, Line]]:
    found, mistakes = list[tuple[int, Line]](), list[str]()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise InputError(path, [": is not there."], "It is part of the repository.") from None
    for at, line in enumerate(lines, start=1):
        try:
            found.append((at, kind.model_validate_json(line)))
        except ValidationError as malformed:
            mistakes += [
                f":{at}: {'.'.join(map(str, each['loc']))}: {each['msg']}"
                for each in malformed.errors()
            ]
    if mistakes:
        raise InputError(path, mistakes, "data/README.md shows the format.")
    return iter(found)


def _mistakes(asked: Question, notes: Mapping[str, Case]) -> Iterator[str]:
    if asked.note not in notes:
        yield f"there is no note {asked.note}."
        return
    unknown = {*asked.essential, *asked.supplementary} - set(notes[asked.note].sentence_ids)
    if unknown:
        yield f"the note {asked.note} has no sentence {', '.join(sorted(unknown))}."
    if not asked.essential or set(asked.essential) & set(asked.supplementary):
        yield "a question needs an essential sentence, and none that is supplementary as well."
    if not all(part in asked.narrative for part in asked.question):
        yield "the question is no part of the narrative."


def _case(note: Note) -> Case:
    sentences = tuple(
        Sentence(id=at, paragraph_id=paragraph, text=text) for at, paragraph, text in note.sentences
    )
    return Case(id=note.note, sentences=sentences)


def _labelled(name: str, asked: Question, about: Case) -> AuxiliaryCase:
    words = {"patient_narrative": asked.narrative, "clinician_question": asked.clinician_question}
    phrases = tuple(Phrase(id=str(at), text=part) for at, part in enumerate(asked.question))
    case = about.model_copy(update={"id": name, "title": "", "patient_question": phrases, **words})
    labels = dict.fromkeys(about.sentence_ids, Relevance.NOT_RELEVANT)
    labels |= dict.fromkeys(asked.supplementary, Relevance.SUPPLEMENTARY)
    labels |= dict.fromkeys(asked.essential, Relevance.ESSENTIAL)
    return AuxiliaryCase(asked.note, case, CaseKey(case_id=name, labels=labels))
