"""Grades MedAgentBench conversations against a record: nothing is asked of a model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from archqa.errors import CallerError, InputError
from archqa.fhir import FhirClient, FhirError, FhirService, Store, connect
from archqa.fhir.record import Record
from archqa.tasks.files.json_node import JsonContent
from archqa.tasks.files.mistakes import FileErrors
from archqa.tasks.files.source import read_source
from scoring import ScoringError
from scoring.tasks.medagentbench_grading import grade_all, grade_do_nothing
from scoring.tasks.medagentbench_reference import Lookup
from scoring.tasks.medagentbench_transcript import Task, read_runs, read_tasks

_SEARCHED = ("Condition", "MedicationRequest", "Procedure")
"""What the benchmark's server holds beside patients and observations."""


class GradedRows(NamedTuple):
    """Rows as the ruler takes them, and those of the replies that do nothing, by reply."""

    rows: list[dict[str, Any]]
    do_nothing_rows: dict[str, list[dict[str, Any]]]


class RecordLookup:
    """Answers a grader's searches from a record; each is made once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._service = (
            FhirService(record.as_profile("hapi")) if isinstance(record, Store) else None
        )
        self._known: dict[str, Mapping[str, Any]] = {}

    def __call__(self, search: str) -> Mapping[str, Any]:
        """The searchset. Raises `FhirError`, `ServerUnavailable`."""
        if search not in self._known:
            self._known[search] = _bundle(self._text(search))
        return self._known[search]

    @property
    def warnings(self) -> list[str]:
        """What must be said beside numbers from this record."""
        counts = self._record.counts() if isinstance(self._record, Store) else {}
        if not counts or any(name in counts for name in _SEARCHED):
            return []
        return [
            f"the record holds no {', '.join(_SEARCHED)}: it is not the benchmark's server. Success rates mean the "
            "same if its answers are the same; context lengths do not."
        ]

    def _text(self, search: str) -> str:
        if self._service is None:
            assert isinstance(self._record, FhirClient)
            return self._record.fetch(search)
        reply = self._service.get(search)
        if reply.status >= 400:
            raise FhirError("The record cannot answer the grader's search.", reply.status)
        return reply.body


def _bundle(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FhirError("The record's answer to the grader's search is no Bundle.", 502)
    return found


@contextmanager
def open_record_lookup(place: str | None) -> Iterator[RecordLookup]:
    """A record to grade against. Raises `CallerError` if none was named, `InputError` if there is none."""
    if not place:
        raise CallerError(
            "Grading MedAgentBench reads the record that was acted on.\nName it with --record STORE_OR_URL."
        )
    with connect(place, ways="hapi") as record:
        yield RecordLookup(record)


def load_tasks(path: Path) -> list[Task]:
    """The tasks of a task file with what they are graded by. Raises `InputError`."""
    source = read_source(path)
    if not isinstance(source.content, JsonContent) or not isinstance(source.content.value, list):
        raise InputError(source.path, [": is no list of tasks."], "Name MedAgentBench's task file.")
    mistakes = FileErrors(
        source.path, 'A task file is [{"id": "task1_1", "instruction": …, "eval_MRN": …}, …].'
    )
    source.content.entries(mistakes)
    mistakes.settle()
    try:
        return read_tasks(source.content.value)
    except ScoringError as error:
        raise InputError(
            source.path, [f": {line.strip()}" for line in str(error).splitlines()[1:]]
        ) from None


def grade_rows(
    rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task], lookup: Lookup
) -> GradedRows:
    """Grade the lines of a `runs.jsonl`. Raises `InputError` for malformed ones, and what the record raises."""
    try:
        transcripts = read_runs(rows, [task.id for task in tasks])
    except ScoringError as error:
        raise InputError(
            "runs.jsonl", [f": {line.strip()}" for line in str(error).splitlines()[1:]]
        ) from None
    return GradedRows(grade_all(tasks, transcripts, lookup), grade_do_nothing(tasks, lookup))
