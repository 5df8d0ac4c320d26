"""Exports a run: submissions of the benchmarks, tables, and what other tools read."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from archqa import tasks
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.runs.exports.case_rows import CaseScores, write_rows
from archqa.runs.exports.fhir_answers import write_bundle
from archqa.runs.exports.spans import write_spans
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


class ExportOptions(NamedTuple):
    """What an export takes besides the run, as far as its format has a place for it.

    `case_scores` are put beside the rows of `jsonl`; `with_text` lets spans hold prompts, replies
    and results of tools, which are record text.
    """

    case_scores: CaseScores = {}
    with_text: bool = False


def _csv(run: Run) -> str:
    table = run.to_pandas().map(formula_free)
    return str(table.to_csv(index=False))


ROWS, SPANS, BUNDLE = "jsonl", "otel-genai", "fhir-bundle"

_OF_ANY_RUN: dict[str, Callable[[Run, ExportOptions], str]] = {
    "csv": lambda run, _: _csv(run),
    ROWS: lambda run, options: write_rows(run, options.case_scores),
    SPANS: lambda run, options: write_spans(run, with_text=options.with_text),
    BUNDLE: lambda run, _: write_bundle(run),
}


def formats() -> tuple[str, ...]:
    """The names that `--format` takes: the tasks' submissions, and the formats of any run."""
    return (*tasks.names(), *_OF_ANY_RUN)


def takes_zip(name: str) -> bool:
    """Whether the organisers take this format as a zip."""
    return name not in _OF_ANY_RUN and tasks.find(name).export.as_zip


def zip_submission(content: str) -> bytes:
    """A zip with `submission.json` alone, as the organisers of 2026 take it.

    Equal submissions make equal bytes: the time stamp in it is the zip format's earliest.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("submission.json"), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def export(
    path: str | Path,
    name: str,
    *,
    partial: bool = False,
    options: ExportOptions = ExportOptions(),  # noqa: B008  # It is immutable.
) -> str:
    """The run in the format of this name (one of `formats()`).

    Raises `CallerError` when a submission would lack cases, since the organisers' script refuses
    such a file.
    """
    run = Run.open(path)
    if name not in formats():
        raise unknown_name("format", name, formats())
    if name in _OF_ANY_RUN:
        return _OF_ANY_RUN[name](run, options)
    task = tasks.find(name)
    unanswered = len(run.manifest.case_ids) - run.count(CaseStatus.ANSWERED)
    if task.export.needs_all_cases and unanswered and not partial:
        raise CallerError(
            f"{unanswered} of {len(run.manifest.case_ids)} cases have no answer; "
            "the organisers' script refuses such a file.\n"
            "Go on with `archqa predict --resume`, or export what there is with --partial."
        )
    return _submission(run, task)
