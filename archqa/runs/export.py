"""A finished run in the formats that others take."""

import json
from collections.abc import Callable
from pathlib import Path

from archqa.errors import CallerError
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run


def _submission(run: Run) -> str:
    return json.dumps(run.submission(), ensure_ascii=False, indent=2) + "\n"


def _csv(run: Run) -> str:
    return str(run.to_pandas().to_csv(index=False))


def _jsonl(run: Run) -> str:
    return "".join(f"{record.model_dump_json()}\n" for record in run.records)


FORMATS: dict[str, Callable[[Run], str]] = {"archehr-2025": _submission, "csv": _csv, "jsonl": _jsonl}


def export(path: str | Path, name: str, *, partial: bool = False) -> str:
    """The run in the format of this name (one of `FORMATS`).

    Raises `CallerError` when a submission would lack cases, since the organisers' script refuses such a file.
    """
    run = Run.open(path)
    lacking = len(run.manifest.case_ids) - run.count(CaseStatus.ANSWERED)
    if name == "archehr-2025" and lacking and not partial:
        raise CallerError(
            f"{lacking} of {len(run.manifest.case_ids)} cases have no answer; the organisers' script refuses such "
            "a file.\nGo on with `archqa predict --resume`, or export what there is with --partial."
        )
    return FORMATS[name](run)
