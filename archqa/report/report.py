"""The report: runs in, one HTML page out that needs nothing but a browser, no script, no network."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.usage import Usage
from archqa.errors import CallerError
from archqa.report.agreement import AgreementTable, agreement_table
from archqa.report.calibration import CalibrationPlot, calibration_plot
from archqa.report.case_view import CaseView, case_view
from archqa.report.differences import RunComparison, compare_for_report
from archqa.report.material import ReportData, load_report_data
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS
from archqa.report.observed import sentence_predictions
from archqa.report.page import render
from archqa.report.scoreboard import Scoreboard, scoreboard
from archqa.report.tradeoff import PrecisionRecallPlot, precision_recall_plot
from archqa.runs.run import Run
from archqa.runs.stage_usage import StageUsage, stage_usage


class RunView(NamedTuple):
    """One run as the report shows it: what was run, what it scored, what it cost, and the figures."""

    material: ReportData
    run: Run
    title: str
    statuses: dict[str, int]
    usage: Usage
    scoreboard: Scoreboard
    stages: tuple[StageUsage, ...]
    calibration: CalibrationPlot | None
    precision_recall: PrecisionRecallPlot | None
    agreement: AgreementTable | None


def report_html(
    paths: Sequence[str | Path], *, key: Path | None = None, text: bool = True, live: Any = None
) -> str:
    """The page about one run, or about several of the same cases, the differences of two first.

    Without `text` it holds numbers, ids and labels, but no word of the record. `live` is what the live pages add.
    Raises `InputError` for what is no run, `CallerError` for runs of different tasks.
    """
    if not paths:
        raise CallerError("A report is about at least one run.\nName a run folder.")
    materials = [load_report_data(path, key) for path in paths]
    _check_same_task(materials)
    return render_report(materials, key=key, text=text, live=live)


def render_report(
    materials: Sequence[ReportData], *, key: Path | None = None, text: bool = True, live: Any = None
) -> str:
    """The same of runs that were gathered before."""
    views = [run_view(each) for each in materials]
    parting = compare_for_report(materials[0], materials[1], key) if len(materials) == 2 else None
    return render(
        "report.html.jinja",
        runs=views,
        differences=parting,
        cases=_cases(views, parting, text),
        text=text,
        live=live,
        words=MARK_LABELS,
        signs=MARK_SYMBOLS,
    )


def write_report(
    paths: Sequence[str | Path],
    out: Path | None = None,
    *,
    key: Path | None = None,
    text: bool = True,
) -> Path:
    """Write the page: `out`, else `report.html` in the (first) run's folder. Readable by its owner alone."""
    name = "report.html" if len(paths) == 1 else "comparison.html"
    place = out or Path(paths[0]) / name
    if out and (out.is_dir() or not out.parent.is_dir()):
        what = f"{out} is a folder." if out.is_dir() else f"{out.parent} is no folder."
        raise CallerError(f"{what}\nName a file in an existing one with --out.")
    html = report_html(paths, key=key, text=text)
    with os.fdopen(
        os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(html)
    return place


def run_view(material: ReportData) -> RunView:
    """What the report shows of one run, its cases apart."""
    run, seen = material.run, sentence_predictions(material)
    statuses: dict[str, int] = {}
    for record in run.iter_records():
        statuses[record.status.value] = statuses.get(record.status.value, 0) + 1
    return RunView(
        material=material,
        run=run,
        title=tasks.find(run.manifest.task).title,
        statuses=statuses,
        usage=run.usage,
        scoreboard=scoreboard(material),
        stages=tuple(stage_usage(run)),
        calibration=calibration_plot(seen),
        precision_recall=precision_recall_plot(seen),
        agreement=agreement_table(material),
    )


def _cases(views: Sequence[RunView], parting: RunComparison | None, text: bool) -> list[CaseView]:
    """Every case: the worst first, or with two runs those first on which they part most."""
    materials = [view.material for view in views]
    items = list(materials[0].run.cases)
    order = [each.place for each in views[0].scoreboard.cases]
    if parting:
        first = [each.place for each in parting.case_differences]
        order = first + [each for each in order if each not in set(first)]
    return [case_view(place, items[place], materials, text=text) for place in order]


def _check_same_task(materials: Sequence[ReportData]) -> None:
    tasks = sorted({each.run.manifest.task for each in materials})
    if len(tasks) > 1:
        raise CallerError(
            f"These runs are of {' and '.join(tasks)}.\nA report holds runs of one task side by side."
        )
