"""Exports a run: submissions of the benchmarks, and tables."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from archqa import tasks
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run
from archqa.safety.spreadsheets import formula_free


def _submission(run: Run, task: tasks.Task) -> str:
    """Return the submission for a task, from a run of it or, if allowed, of a related task."""
    made_by = task.export.made_by
    if not made_by and run.manifest.task != task.name:
        raise CallerError(
            f"{run.path} is a run of {run.manifest.task}.\n"
            f"Export it with --format {run.manifest.task}."
        )
    rows = task.submission(run.ended())
    missing = run.count(CaseStatus.ANSWERED) - len(rows)
    if made_by and missing:
        raise CallerError(
            f"{missing} answered cases of {run.path} have nothing for {task.name}.\n{made_by}"
        )
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def _csv(run: Run) -> str:
    table = run.to_pandas().map(formula_free)
    return str(table.to_csv(index=False))


def _jsonl(run: Run) -> str:
    return "".join(f"{record.model_dump_json()}\n" for record in run.records)


_TABLES: dict[str, Callable[[Run], str]] = {"csv": _csv, "jsonl": _jsonl}


def formats() -> tuple[str, ...]:
    """The names that `--format` takes: the tasks' submissions and tables of any run."""
    return (*tasks.names(), *_TABLES)


def takes_zip(name: str) -> bool:
    """Whether the organisers take this format as a zip."""
    return name not in _TABLES and tasks.find(name).export.as_zip


def zip_submission(content: str) -> bytes:
    """A zip with `submission.json` alone, as the organisers of 2026 take it.

    Equal submissions make equal bytes: the time stamp in it is the zip format's earliest.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("submission.json"), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def export(path: str | Path, name: str, *, partial: bool = False) -> str:
    """The run in the format of this name (one of `formats()`).

    Raises `CallerError` when a submission would lack cases, since the organisers' script refuses
    such a file.
    """
    run = Run.open(path)
    if name not in formats():
        raise unknown_name("format", name, formats())
    if name in _TABLES:
        return _TABLES[name](run)
    task = tasks.find(name)
    unanswered = len(run.manifest.case_ids) - run.count(CaseStatus.ANSWERED)
    if task.export.needs_all_cases and unanswered and not partial:
        raise CallerError(
            f"{unanswered} of {len(run.manifest.case_ids)} cases have no answer; "
            "the organisers' script refuses such a file.\n"
            "Go on with `archqa predict --resume`, or export what there is with --partial."
        )
    return _submission(run, task)
