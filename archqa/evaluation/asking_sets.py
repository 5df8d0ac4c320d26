"""Sets of questions of people with what is right: about notes, about records, about charts.

    notes   [{"file", "items": [{"q", "kind": "answerable" | "unanswerable", "quotes", "hard"}]}]
    records [{"q", "patient", "kind", "expect", "must", "must_not", "ids" | "sources"}]

`quotes` are groups of exact substrings of the note, one of each group suffices. `expect` is value,
none or decline; without it, it is decline for the kind none (a fact that the chart lacks, or a
judgement: anything but an answer is right), else value. `must` and `must_not` are
regular expressions.
"""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator

from archqa.core.evidence_overlap import Offsets
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.safety.storage import storage_errors

FORMAT_HINT = 'A set is a list of {"file", "items"} about notes, or of {"q", "patient", "must"} about records.'
NOTES_HINT = 'The notes are a JSON list of {"file", "text"}, also gzipped.'

Expected = Literal["value", "none", "decline"]


class NoteQuestion(NamedTuple):
    """A question about a note. `groups` are of places in it, of which one each suffices.

    No group: the note does not answer; `hard` if the topic occurs in it.
    """

    question: str
    file: str
    note: str
    groups: tuple[tuple[Offsets, ...], ...]
    hard: bool
    gold: str


class RecordQuestion(FrozenModel):
    """A question about a patient of a record, or of a chart where it has `sources`."""

    q: str
    patient: str
    kind: str = ""
    expect: Expected = "value"
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()
    gold: str = ""

    @field_validator("must", "must_not")
    @classmethod
    def _regular_expressions(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error:
                raise ValueError("is no regular expression") from None
        return patterns


Questions = tuple[NoteQuestion, ...] | tuple[RecordQuestion, ...]
"""All questions of a set."""


class _Item(BaseModel):
    q: str
    kind: Literal["answerable", "unanswerable"]
    quotes: tuple[tuple[str, ...], ...] = ()
    hard: bool = False
    answer: str = ""
    why: str = ""


class _NoteItems(BaseModel):
    file: str
    items: tuple[_Item, ...]


class _NoteText(BaseModel):
    file: str
    text: str


def read_set(path: Path, notes: Path | None) -> Questions:
    """Return the questions of a set, with the notes that they are about.

    Raises `InputError` with all mistakes, `CallerError` if a set about notes comes without them.
    """
    content = _read_json(path, FORMAT_HINT)
    is_about_notes = isinstance(content[0], dict) and "items" in content[0]
    if not is_about_notes:
        rows = []
        for row in content:
            if isinstance(row, dict) and "expect" not in row and row.get("kind") == "none":
                row = {**row, "expect": "decline"}
            rows.append(row)
        questions: tuple[RecordQuestion, ...] = _validated(
            path, rows, tuple[RecordQuestion, ...], FORMAT_HINT
        )
        return questions
    if notes is None:
        raise CallerError("The set is about notes.\nName the file of their texts with --notes.")
    texts = {}
    for note in _validated(notes, _read_json(notes, NOTES_HINT), tuple[_NoteText, ...], NOTES_HINT):
        texts[note.file] = note.text
    return _note_questions(path, content, texts)


def _read_json(path: Path, hint: str) -> list[Any]:
    with storage_errors(path):
        content = path.read_bytes()
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        rows = json.loads(content)
    except (OSError, EOFError, ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not rows:
        raise InputError(path, [": is no JSON list."], hint) from None
    return rows


def _validated(path: Path, content: Any, expected: Any, hint: str) -> Any:
    try:
        return TypeAdapter(expected).validate_python(content)
    except ValidationError as error:
        mistakes = []
        for mistake in error.errors(include_url=False, include_input=False, include_context=False):
            place = ".".join(str(step) for step in mistake["loc"])
            mistakes.append(f": {place}: {mistake['msg'].removeprefix('Value error, ')}")
        raise InputError(path, mistakes, hint) from None


def _note_questions(
    path: Path, content: list[Any], texts: dict[str, str]
) -> tuple[NoteQuestion, ...]:
    questions = []
    mistakes = []
    for note in _validated(path, content, tuple[_NoteItems, ...], FORMAT_HINT):
        if note.file not in texts:
            mistakes.append(f": the notes have no {note.file}.")
            continue
        for number, item in enumerate(note.items, start=1):
            question = _note_question(note.file, texts[note.file], item)
            if not all(question.groups) or bool(question.groups) != (item.kind == "answerable"):
                mistakes.append(f": {note.file}, question {number}: a quote is not in the note.")
            questions.append(question)
    if mistakes:
        raise InputError(path, mistakes, FORMAT_HINT)
    return tuple(questions)


def _note_question(file: str, text: str, item: _Item) -> NoteQuestion:
    groups = []
    for quotes in item.quotes:
        places: list[Offsets] = []
        for quote in quotes:
            places += _places(quote, text)
        groups.append(tuple(places))
    return NoteQuestion(item.q, file, text, tuple(groups), item.hard, item.answer or item.why)


def _places(quote: str, text: str) -> Iterator[Offsets]:
    """Yield every place of a quote in a text."""
    start = text.find(quote) if quote else -1
    while start >= 0:
        yield start, start + len(quote)
        start = text.find(quote, start + 1)
