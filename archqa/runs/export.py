"""A finished run in the formats that others take."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from archqa import tasks
from archqa.errors import CallerError
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run


def _submission(run: Run, task: tasks.Task) -> str:
    """The submission for a task, from a run of it or, where its format allows, of a related task."""
    made_by = task.export.made_by
    if not made_by and run.manifest.task != task.name:
        raise CallerError(
            f"{run.path} is a run of {run.manifest.task}.\n"
            f"Export it with --format {run.manifest.task}."
        )
    rows = task.submission(run.ended())
    lacking = run.count(CaseStatus.ANSWERED) - len(rows)
    if made_by and lacking:
        raise CallerError(
            f"{lacking} answered cases of {run.path} have nothing for {task.name}.\n{made_by}"
        )
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def _csv(run: Run) -> str:
    return str(run.to_pandas().to_csv(index=False))


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
    """A submission of 2026 as its organisers take it: a zip that holds `submission.json` alone.

    Equal submissions make equal bytes: the time in it is the zip format's earliest.
    """
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("submission.json"), content, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def export(path: str | Path, name: str, *, partial: bool = False) -> str:
    """The run in the format of this name (one of `formats()`).

    Raises `CallerError` when a submission would lack cases, since the organisers' script refuses such a file.
    """
    run = Run.open(path)
    if name in _TABLES:
        return _TABLES[name](run)
    task = tasks.find(name)
    lacking = len(run.manifest.case_ids) - run.count(CaseStatus.ANSWERED)
    if task.export.needs_all_cases and lacking and not partial:
        raise CallerError(
            f"{lacking} of {len(run.manifest.case_ids)} cases have no answer; the organisers' script refuses such "
            "a file.\nGo on with `archqa predict --resume`, or export what there is with --partial."
        )
    return _submission(run, task)
