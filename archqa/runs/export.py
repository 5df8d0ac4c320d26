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


def _own(task: str) -> Callable[[Run], str]:
    """The submission of a run of this very task."""

    def written(run: Run) -> str:
        if run.manifest.task != task:
            raise CallerError(
                f"{run.path} is a run of {run.manifest.task}.\nExport it with --format {run.manifest.task}."
            )
        return json.dumps(run.submission(), ensure_ascii=False, indent=2) + "\n"

    return written


def _csv(run: Run) -> str:
    return str(run.to_pandas().to_csv(index=False))


def _jsonl(run: Run) -> str:
    return "".join(f"{record.model_dump_json()}\n" for record in run.records)


def _subtask(name: str) -> Callable[[Run], str]:
    """A subtask of 2026 from any run that made what it takes: one panel run serves the first three."""

    def written(run: Run) -> str:
        rows = tasks.find(name).submission(run.ended())
        lacking = run.count(CaseStatus.ANSWERED) - len(rows)
        if lacking:
            raise CallerError(
                f"{lacking} answered cases of {run.path} have nothing for {name}.\n{_MADE_BY[name]}"
            )
        return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"

    return written


_MADE_BY = {
    "archehr-2026-st1": "Runs of --pipeline panel have it, and those of --task archehr-2026-st1.",
    "archehr-2026-st2": "Runs over notes with cited answers have it.",
    "archehr-2026-st3": "Runs over notes with cited answers have it.",
    "archehr-2026-st4": "Runs of --task archehr-2026-st4 have it.",
}
ZIP_FORMATS = tuple(_MADE_BY)
"""Formats whose organisers take a zip."""

SUBMISSIONS = ("archehr-2025", *ZIP_FORMATS)
"""Formats that organisers refuse where cases are lacking."""

FORMATS: dict[str, Callable[[Run], str]] = {
    "archehr-2025": _own("archehr-2025"),
    **{name: _subtask(name) for name in _MADE_BY},
    "fhir-agentbench": _own("fhir-agentbench"),
    "medagentbench": _own("medagentbench"),
    "csv": _csv,
    "jsonl": _jsonl,
}


def zip_submission(content: str) -> bytes:
    """A submission of 2026 as its organisers take it: a zip that holds `submission.json` alone.

    Equal submissions make equal bytes: the time in it is the zip format's earliest.
    """
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("submission.json"), content, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def export(path: str | Path, name: str, *, partial: bool = False) -> str:
    """The run in the format of this name (one of `FORMATS`).

    Raises `CallerError` when a submission would lack cases, since the organisers' script refuses such a file.
    """
    run = Run.open(path)
    lacking = len(run.manifest.case_ids) - run.count(CaseStatus.ANSWERED)
    if name in SUBMISSIONS and lacking and not partial:
        raise CallerError(
            f"{lacking} of {len(run.manifest.case_ids)} cases have no answer; the organisers' script refuses such "
            "a file.\nGo on with `archqa predict --resume`, or export what there is with --partial."
        )
    return FORMATS[name](run)
