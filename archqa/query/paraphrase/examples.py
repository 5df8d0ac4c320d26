"""Training questions: a question that the grammar reads, and the same in free words.

A file has lines `LABELLED TAB FREE`; what LABELLED reads as is the label. In lines `REFUSE TAB FREE`
the words in brackets decide and stand in no frame.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from archqa.query.everyday import (
    NameIndex,
    NotUnderstood,
    PatientVocabulary,
    Understood,
    read_question,
)
from archqa.query.paraphrase.reduction import Reduction, reduce_all, reduce_question
from archqa.query.paraphrase.skeleton import frame_of, skeleton_of
from archqa.query.paraphrase.wording import Wording

REFUSE, PLAIN = "REFUSE", "plain"
TODAY = date(2026, 11, 25)
VOCABULARY = PatientVocabulary(lambda: (), lambda: NameIndex(()), lambda: NameIndex(()))
"""Of no record: what the training questions name stands in the tables of concepts."""
_BRACKETS = re.compile(r"[\[\]]")


class Example(NamedTuple):
    """A training question.

    frame: of the label; empty for one to refuse. group: the words of the labelled question without
    its names, held out together; PLAIN, the labels themselves, never. `is_left_over` says that the
    grammar does not read the question, `reduced` is what it reads without harmless words.
    """

    question: str
    frame: str
    group: str
    source: str
    reduction: Reduction
    reduced: str
    is_left_over: bool


class Corpus(NamedTuple):
    """The examples, and how many lines were dropped: labels not read, or other names in FREE."""

    examples: tuple[Example, ...]
    unread: int
    renamed: int


def read_corpus(files: Sequence[Path]) -> Corpus:
    """Read files of training questions."""
    examples: list[Example] = []
    unread = renamed = 0
    for file in files:
        for labelled, free in _lines(file):
            if labelled == REFUSE:
                examples.append(_refused(free, file.stem))
                continue
            label = read_question(labelled, VOCABULARY, today=TODAY)
            plain = reduce_all(labelled, VOCABULARY, TODAY)
            if not isinstance(label, Understood):
                unread += 1
            elif _names(plain.wording) != _names(reduce_all(free, VOCABULARY, TODAY).wording):
                renamed += 1
            else:
                frame = frame_of(skeleton_of(label))
                examples.append(_example(free, frame, plain.text, file.stem))
    plain_forms = tuple(_plain_forms(files))
    return Corpus((*plain_forms, *examples), unread, renamed)


def _plain_forms(files: Iterable[Path]) -> Iterator[Example]:
    """The labelled questions themselves: what the grammar reads is known of every frame."""
    labels = dict.fromkeys(labelled for file in files for labelled, _ in _lines(file))
    for labelled in labels:
        label = read_question(labelled, VOCABULARY, today=TODAY)
        if isinstance(label, Understood):
            yield _example(labelled, frame_of(skeleton_of(label)), PLAIN, PLAIN)


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        labelled, tab, free = line.partition("\t")
        if tab and not line.startswith("#"):
            yield labelled, free


def _refused(free: str, source: str) -> Example:
    question = _BRACKETS.sub("", free)
    return _example(question, "", question, source)


def _example(question: str, frame: str, group: str, source: str) -> Example:
    reading = read_question(question, VOCABULARY, today=TODAY)
    reduced = reduce_question(question, VOCABULARY, TODAY)
    return Example(
        question=question,
        frame=frame,
        group=group,
        source=source,
        reduction=reduce_all(question, VOCABULARY, TODAY),
        reduced=frame_of(reduced.skeleton) if reduced and reduced.reading else "",
        is_left_over=isinstance(reading, NotUnderstood),
    )


def _names(wording: Wording) -> list[tuple[str, list[str]]]:
    return sorted((slot.kind, sorted(slot.means)) for slot in wording.slots)
