"""Grading of MedAgentBench conversations against a record, without a model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from archqa.errors import CallerError, InputError
from archqa.fhir import FhirClient, FhirError, FhirService, Store, connect
from archqa.fhir.record import Record
from archqa.safety.server_urls import fhir_server_problem
from archqa.tasks.files.json_node import JsonContent
from archqa.tasks.files.mistakes import FileErrors
from archqa.tasks.files.source import read_source
from scoring import ScoringError
from scoring.tasks.medagentbench import (
    count_posts_elsewhere,
    grade_all,
    grade_do_nothing,
)
from scoring.tasks.medagentbench_official import BASE
from scoring.tasks.medagentbench_reference import Lookup
from scoring.tasks.medagentbench_transcript import Task, read_runs, read_tasks

_FIX = 'A task file is [{"id": "task1_1", "instruction": …, "eval_MRN": …}, …].'
_OTHER_TYPES = ("Condition", "MedicationRequest", "Procedure")
"""Resource types of the benchmark's server besides Patient and Observation."""


class GradedRows(NamedTuple):
    """Rows as `scoring` takes them, and the rows of each reply that does nothing, by reply.

    `posted_elsewhere` counts the conversations with an accepted POST to another base URL.
    """

    rows: list[dict[str, Any]]
    do_nothing_rows: dict[str, list[dict[str, Any]]]
    posted_elsewhere: int = 0

    def warnings(self, base: str) -> list[str]:
        """A warning where POSTs went to another server than the one that is graded against."""
        if not self.posted_elsewhere:
            return []
        return [
            f"{self.posted_elsewhere} conversations post to another address than {base}, which the "
            "official grading counts as wrong. If their agents were told another server, name its "
            "base URL with --fhir-base URL."
        ]


class RecordLookup:
    """Runs a grader's searches on a record, each search once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._service: FhirService | None = None
        if isinstance(record, Store):
            self._service = FhirService(record.as_profile("hapi"))
        self._bundles: dict[str, Mapping[str, Any]] = {}

    def __call__(self, search: str) -> Mapping[str, Any]:
        """The searchset. Raises `FhirError`, `ServerUnavailable`."""
        if search not in self._bundles:
            self._bundles[search] = _parse_bundle(self._fetch(search))
        return self._bundles[search]

    @property
    def warnings(self) -> list[str]:
        """Warnings to print with numbers from this record."""
        if not isinstance(self._record, Store):
            return []
        counts = self._record.counts()
        if not counts or any(name in counts for name in _OTHER_TYPES):
            return []
        return [
            f"the record holds no {', '.join(_OTHER_TYPES)}: it is not the benchmark's server. "
            "Success rates mean the same if its answers are the same; context lengths do not."
        ]

    def _fetch(self, search: str) -> str:
        if self._service is None:
            assert isinstance(self._record, FhirClient)
            return self._record.fetch(search)
        response = self._service.get(search)
        if response.status >= 400:
            raise FhirError("The record cannot answer the grader's search.", response.status)
        return response.body


def _parse_bundle(text: str) -> Mapping[str, Any]:
    try:
        bundle = json.loads(text)
    except (ValueError, RecursionError):
        bundle = None
    if not isinstance(bundle, dict):
        raise FhirError("The record's answer to the grader's search is no Bundle.", 502)
    return bundle


@contextmanager
def open_record_lookup(
    record_name: str | None, *, allow_plain_http: bool = False
) -> Iterator[RecordLookup]:
    """A record to grade against: a store or the URL of a server.

    Raises `CallerError` if none was named, `InputError` if it does not exist.
    """
    if not record_name:
        raise CallerError(
            "Grading MedAgentBench reads the record that was acted on.\n"
            "Name it with --record STORE_OR_URL."
        )
    with connect(record_name, profile="hapi", allow_plain_http=allow_plain_http) as record:
        yield RecordLookup(record)


def load_tasks(path: Path) -> list[Task]:
    """The tasks of a task file with their grading keys. Raises `InputError`."""
    source = read_source(path)
    if not isinstance(source.content, JsonContent) or not isinstance(source.content.value, list):
        raise InputError(source.path, [": is no list of tasks."], "Name MedAgentBench's task file.")
    mistakes = FileErrors(source.path, _FIX)
    source.content.entries(mistakes)
    mistakes.raise_if_any()
    try:
        return read_tasks(source.content.value)
    except ScoringError as error:
        raise _input_error(source.path, error) from None


def grade_rows(
    rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task], lookup: Lookup, base: str = BASE
) -> GradedRows:
    """Grade the lines of a `runs.jsonl`, whose agents were told this base URL.

    Raises `InputError` for malformed lines, and what the record raises.
    """
    try:
        transcripts = read_runs(rows, [task.id for task in tasks])
    except ScoringError as error:
        raise _input_error("runs.jsonl", error) from None
    return GradedRows(
        grade_all(tasks, transcripts, lookup, base),
        grade_do_nothing(tasks, lookup),
        count_posts_elsewhere(transcripts.values(), base),
    )


def checked_base(url: str | None) -> str:
    """The base URL with a slash at its end; the benchmark's own without one.

    Raises `CallerError` for what is no base URL of a FHIR server.
    """
    if url is None:
        return BASE
    problem = fhir_server_problem(url.strip())
    if problem:
        raise CallerError(
            f"The FHIR base URL {problem}.\n"
            f"Write the one that the agents were told, such as {BASE}, after --fhir-base."
        )
    return url.strip().rstrip("/") + "/"


def _input_error(path: str, error: ScoringError) -> InputError:
    """The mistakes that `scoring` lists below the first line of its message."""
    mistakes = str(error).splitlines()[1:]
    return InputError(path, [f": {mistake.strip()}" for mistake in mistakes])
