"""The report: one HTML page about runs that needs nothing but a browser, no script, no network."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.usage import Usage
from archqa.errors import CallerError
from archqa.report.agreement import AgreementTable, agreement_table
from archqa.report.calibration import CalibrationPlot, calibration_plot
from archqa.report.case_view import CaseView, case_view
from archqa.report.comparison import RunComparison, compare_for_report
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS
from archqa.report.page import render
from archqa.report.precision_recall import PrecisionRecallPlot, precision_recall_plot
from archqa.report.predictions import sentence_predictions
from archqa.report.report_data import ReportData, load_report_data
from archqa.report.scoreboard import Scoreboard, scoreboard
from archqa.runs.run import Run
from archqa.runs.stage_usage import StageUsage, stage_usage
from archqa.safety.private_files import write_private_text


class RunView(NamedTuple):
    """The report's view of one run, without its cases."""

    data: ReportData
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
    """Return the page about one run or several; the page of two starts with their differences.

    Without `text`, it has numbers, ids and labels, but no text of the record. `live` has the links
    of the live pages. Raises `InputError` for a folder that is not a run, `CallerError` for runs of
    different tasks.
    """
    if not paths:
        raise CallerError("A report is about at least one run.\nName a run folder.")
    runs = [load_report_data(path, key) for path in paths]
    _check_same_task(runs)
    return render_report(runs, key=key, text=text, live=live)


def render_report(
    runs: Sequence[ReportData], *, key: Path | None = None, text: bool = True, live: Any = None
) -> str:
    """Return the page about runs that are loaded already."""
    views = [run_view(data) for data in runs]
    comparison = None
    if len(runs) == 2:
        comparison = compare_for_report(runs[0], runs[1], key)
    return render(
        "report.html.jinja",
        runs=views,
        comparison=comparison,
        cases=_case_views(views, comparison, text),
        text=text,
        live=live,
        mark_labels=MARK_LABELS,
        mark_symbols=MARK_SYMBOLS,
    )


def write_report(
    paths: Sequence[str | Path],
    out: Path | None = None,
    *,
    key: Path | None = None,
    text: bool = True,
) -> Path:
    """Write the page to `out`, else to the (first) run's folder, readable by its owner alone."""
    if out and out.is_dir():
        raise CallerError(f"{out} is a folder.\nName a file in an existing one with --out.")
    if out and not out.parent.is_dir():
        raise CallerError(f"{out.parent} is no folder.\nName a file in an existing one with --out.")
    html = report_html(paths, key=key, text=text)
    file_name = "report.html" if len(paths) == 1 else "comparison.html"
    path = out or Path(paths[0]) / file_name
    write_private_text(path, html)
    return path


def run_view(data: ReportData) -> RunView:
    """Return the view of one run."""
    run = data.run
    predictions = sentence_predictions(data)
    statuses = Counter(record.status.value for record in run.iter_records())
    return RunView(
        data=data,
        run=run,
        title=tasks.find(run.manifest.task).title,
        statuses=dict(statuses),
        usage=run.usage,
        scoreboard=scoreboard(data),
        stages=tuple(stage_usage(run)),
        calibration=calibration_plot(predictions),
        precision_recall=precision_recall_plot(predictions),
        agreement=agreement_table(data),
    )


def _case_views(
    views: Sequence[RunView], comparison: RunComparison | None, text: bool
) -> list[CaseView]:
    """Return every case: those with the largest differences first, then the worst first."""
    runs = [view.data for view in views]
    items = list(runs[0].run.cases)
    worst_first = [case.case_index for case in views[0].scoreboard.cases]
    differing = []
    if comparison:
        differing = [case.case_index for case in comparison.case_differences]
    order = dict.fromkeys([*differing, *worst_first])
    return [case_view(index, items[index], runs, text=text) for index in order]


def _check_same_task(runs: Sequence[ReportData]) -> None:
    task_names = sorted({data.run.manifest.task for data in runs})
    if len(task_names) > 1:
        raise CallerError(
            f"These runs are of {' and '.join(task_names)}.\n"
            "A report holds runs of one task side by side."
        )
