"""Reads files of cases and keys of every task, recognised by what a file holds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from archqa.errors import InputError, without_suppressed_causes
from archqa.safety.arguments import as_path
from archqa.tasks.case_tables import CaseTable, is_table, read_table
from archqa.tasks.files.cohorts import (
    JSONL_SUFFIXES,
    PARQUET_SUFFIX,
    open_jsonl,
    open_parquet,
)
from archqa.tasks.files.mistakes import FileErrors, printable
from archqa.tasks.files.source import FORMAT_HINT, Source, read_source
from archqa.tasks.registry import all_tasks, default_task, find
from archqa.tasks.task import CaseFile, CaseSource, LoadRemarks, Task

_NOT_CASES = (
    (
        frozenset({"answers"}),
        "this looks like a key, not like cases.",
        "Name the case file here; give this one by --key.",
    ),
    (
        frozenset({"clinician_answer"}),
        "this looks like a key.",
        "Name the case file here; give this one by --key.",
    ),
    (
        frozenset({"case_id", "answer"}),
        "this looks like a submission.",
        "archqa score FILE --key KEY scores it.",
    ),
    (
        frozenset({"case_id", "prediction"}),
        "this looks like a submission.",
        "archqa score FILE --key KEY scores it.",
    ),
)
"""Fields of files that are not case files, what is wrong and what to do."""


def recognise(source: CaseSource) -> Task:
    """The task that a file's content belongs to. Raises `InputError` if it is of none."""
    opened = read_source(source)
    content = opened.content
    if not content.fields:
        return default_task()  # Its loader says what an entry should be.
    for task in all_tasks():
        if task.recognises(content):
            return task
    for fields, problem, fix in _NOT_CASES:
        if fields <= content.fields:
            raise InputError(opened.path, [f": {problem}"], fix)
    raise InputError(
        opened.path, [": no benchmark we know has entries like these."], FORMAT_HINT
    )


@without_suppressed_causes
def load_cases(source: CaseSource | CaseTable, task: str | None = None) -> CaseFile:
    """Read a case file: a path, `-` (standard input) or `mini`. `task` overrides its content.

    `source` may also be a data frame or a list of cases or dicts (see `archqa.tasks.case_tables`).
    The cases of large JSON Lines and Parquet files stay on disk. Raises `InputError` with every mistake of the
    file, `CallerError` for an unknown task and for the columns of a table.
    """
    return _load(source, task)


@without_suppressed_causes
def load_cases_to_answer(
    source: CaseSource | CaseTable, task: str | None = None
) -> CaseFile:
    """Read the same for a run: notes without sentences are split, and `remarks` says so.

    Raises `InputError` as `load_cases`, and for cases without a question or a note.
    """
    remarks = LoadRemarks()
    file = _load(source, task, lambda reading_task: reading_task.for_answering(remarks))
    return replace(file, is_complete=True, remarks=remarks.texts())


def complete(file: CaseFile) -> CaseFile:
    """The file as `load_cases_to_answer` reads it. Raises `InputError` for cases that lack something."""
    if file.is_complete:
        return file
    task, remarks = find(file.task), LoadRemarks()
    mistakes = FileErrors(str(file.path), FORMAT_HINT)
    for case in file.cases:
        for part in task.missing_parts(task.completed(case, remarks)):
            mistakes.add(f": case {printable(case.id)}, {part.field}", part.problem)
    mistakes.raise_if_any()
    texts = remarks.texts()
    cases = file.cases
    if texts:
        cases = tuple(task.completed(case, remarks) for case in file.cases)
    return replace(file, cases=cases, is_complete=True, remarks=(*file.remarks, *texts))


def load_notes(source: CaseSource) -> CaseFile:
    """Read a file of cases with notes, whatever it looks like, to score them. Raises `InputError`."""
    return _load(
        source, default_task().name, lambda reading_task: reading_task.for_scoring()
    )


def _load(
    source: CaseSource | CaseTable,
    name: str | None,
    prepare: Callable[[Task], Task] = lambda task: task,
) -> CaseFile:
    """The cases of a source. `name` is the task's; `prepare` makes the task that reads them."""
    if is_table(source):
        opened, task = read_table(source, name)
    else:
        if not isinstance(source, Source | bytes):
            path = as_path(source, "The case file")
            if path.suffix in {*JSONL_SUFFIXES, PARQUET_SUFFIX} and path.is_file():
                # They are archqa's own formats, and hold notes unless `--task` says otherwise.
                task = prepare(default_task() if name is None else find(name))
                if path.suffix == PARQUET_SUFFIX:
                    cases, sha256 = open_parquet(path, task.read_line)
                    return CaseFile(path, task.name, cases, sha256, "parquet")
                cases, sha256 = open_jsonl(path, task.read_line)
                return CaseFile(path, task.name, cases, sha256, "jsonl")
        opened = read_source(cast("CaseSource", source))
        task = recognise(opened) if name is None else find(name)
    task = prepare(task)
    cases = task.load(opened)
    return CaseFile(
        Path(opened.path), task.name, cases, opened.sha256, opened.content.format
    )
