"""Reads files of cases and keys of every task, recognised by what a file holds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from archqa.errors import InputError, without_suppressed_causes
from archqa.safety.arguments import as_path
from archqa.tasks.case_tables import CaseTable, is_table, read_table
from archqa.tasks.files.content import FORMAT_HINT
from archqa.tasks.files.json_lines import JSONL_SUFFIXES, open_jsonl
from archqa.tasks.files.mistakes import FileErrors, printable
from archqa.tasks.files.parquet import PARQUET_SUFFIX, open_parquet
from archqa.tasks.files.source import Source, read_source, resolve_path
from archqa.tasks.load_remarks import LoadRemarks
from archqa.tasks.registry import all_tasks, default_task, find
from archqa.tasks.task import CaseFile, CaseSource, KeyFile, Task

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
    return _recognise(read_source(source))


@without_suppressed_causes
def load_cases(source: CaseSource | CaseTable, task: str | None = None) -> CaseFile:
    """Read a case file: a path, `-` (standard input) or `mini`. `task` overrides its content.

    `source` may also be a data frame or a list of cases or dicts (see `archqa.tasks.case_tables`).
    The cases of JSON Lines and Parquet files stay on disk. Raises `InputError` with every mistake of the
    file, `CallerError` for an unknown task and for the columns of a table.
    """
    return _load(source, task, lambda reading_task: reading_task)


@without_suppressed_causes
def load_cases_to_answer(source: CaseSource | CaseTable, task: str | None = None) -> CaseFile:
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
    return _load(source, default_task().name, lambda reading_task: reading_task.for_scoring())


@without_suppressed_causes
def load_key(source: CaseSource) -> KeyFile:
    """Read an ArchEHR-QA key, of 2025 or 2026. Raises `InputError` with every mistake of the file."""
    from archqa.tasks.archehr_2025.key import read_key

    opened = read_source(source)
    return KeyFile(Path(opened.path), opened.sha256, read_key(opened))


def find_key(case_path: str | Path) -> Path | None:
    """The key next to a case file: `<stem>_key.json`, else `archehr-qa_key.json`, else None."""
    path = resolve_path(case_path)
    if not path.name:
        return None
    for name in (f"{path.stem}_key.json", "archehr-qa_key.json"):
        key = path.with_name(name)
        if key.is_file():
            return key
    return None


def _is_cohort(path: Path) -> bool:
    is_cohort = path.suffix in {*JSONL_SUFFIXES, PARQUET_SUFFIX}
    return is_cohort and path.is_file()


def _load(
    source: CaseSource | CaseTable, name: str | None, prepare: Callable[[Task], Task]
) -> CaseFile:
    if is_table(source):
        return _load_table(source, name, prepare)
    if not isinstance(source, Source | bytes):
        path = as_path(source, "The case file")
        if _is_cohort(path):
            return _load_cohort(path, name, prepare)
    opened = read_source(cast("CaseSource", source))
    task = prepare(recognise(opened) if name is None else find(name))
    cases = task.load(opened)
    return CaseFile(Path(opened.path), task.name, cases, opened.sha256, opened.content.format)


def _load_table(table: CaseTable, name: str | None, prepare: Callable[[Task], Task]) -> CaseFile:
    opened, of_columns = read_table(table, name)
    task = prepare(of_columns)
    cases = task.load(opened)
    return CaseFile(Path(opened.path), task.name, cases, opened.sha256, "json")


def _load_cohort(path: Path, name: str | None, prepare: Callable[[Task], Task]) -> CaseFile:
    """JSON Lines and Parquet are archqa's own formats: they hold notes unless `--task` says otherwise."""
    task = prepare(default_task() if name is None else find(name))
    if path.suffix == PARQUET_SUFFIX:
        cases, sha256 = open_parquet(path, task.read_line)
        return CaseFile(path, task.name, cases, sha256, "parquet")
    lines, sha256 = open_jsonl(path, task.read_line)
    return CaseFile(path, task.name, lines, sha256, "jsonl")


def _recognise(source: Source) -> Task:
    content = source.content
    if not content.fields:
        return default_task()  # Its loader says what an entry should be.
    for task in all_tasks():
        if task.recognises(content):
            return task
    for fields, problem, fix in _NOT_CASES:
        if fields <= content.fields:
            raise InputError(source.path, [f": {problem}"], fix)
    raise InputError(source.path, [": no benchmark we know has entries like these."], FORMAT_HINT)
