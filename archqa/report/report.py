"""The report: one HTML page about runs that needs nothing but a browser, and no network.

Its one script, inline and allowed by its hash, sorts and filters the table of cases; the page reads
without it.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from archqa import tasks
from archqa.core.usage import Usage
from archqa.errors import CallerError
from archqa.report.agreement import AgreementTable, agreement_table
from archqa.report.calibration import CalibrationPlot, calibration_plot
from archqa.report.case_rows import (
    CaseRow,
    ReviewMark,
    TableColumn,
    case_rows,
    specialties,
    table_columns,
)
from archqa.report.case_view import case_view
from archqa.report.comparison import COLUMNS, KINDS, RunComparison, compare_for_report
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS
from archqa.report.page import TEMPLATES, render
from archqa.report.precision_recall import PrecisionRecallPlot, precision_recall_plot
from archqa.report.predictions import sentence_predictions
from archqa.report.report_data import ReportData, load_report_data
from archqa.report.run_state import RunState, run_state, scored_cases
from archqa.report.scoreboard import Scoreboard, case_metric_name, scoreboard
from archqa.runs.run import Run
from archqa.runs.stage_usage import StageUsage, stage_usage
from archqa.safety.files import write_private_text

MAX_ARTICLES = 300
"""Cases that a report shows in full, the worst ones; its table has all."""


class RunFigures(NamedTuple):
    """What the figures of a run are drawn from; it reads every trace of the run."""

    statuses: dict[str, int]
    usage: Usage
    stages: tuple[StageUsage, ...]
    calibration: CalibrationPlot | None
    precision_recall: PrecisionRecallPlot | None
    agreement: AgreementTable | None


class RunView(NamedTuple):
    """The report's view of one run: how it stands, its scores, its rows. `over` is of how many
    cases the scores are."""

    data: ReportData
    run: Run
    title: str
    scoreboard: Scoreboard
    rows: tuple[CaseRow, ...]
    columns: tuple[TableColumn, ...]
    state: RunState
    over: str


def report_html(paths: Sequence[str | Path], *, key: Path | None = None, text: bool = True) -> str:
    """Return the page about one run or several; the page of two starts with their differences.

    Without `text`, it has numbers, ids and labels, but no text of the record. Raises `InputError`
    for a folder that is not a run, `CallerError` for runs of different tasks.
    """
    if not paths:
        raise CallerError("A report is about at least one run.\nName a run folder.")
    runs = [load_report_data(path, key) for path in paths]
    check_same_task(runs)
    return render_report(runs, key=key, text=text)


def render_report(runs: Sequence[ReportData], *, key: Path | None = None, text: bool = True) -> str:
    """Return the page about runs that are loaded already."""
    views = [run_view(data, text=text) for data in runs]
    comparison = None
    if len(runs) == 2:
        comparison = compare_for_report(runs[0], runs[1], key, text=text)
    order = _article_order(views, comparison)
    items = list(runs[0].run.cases)
    shown = order[:MAX_ARTICLES]
    script = (TEMPLATES / "case_table.js").read_text(encoding="utf-8")
    return render(
        "report.html.jinja",
        runs=views,
        figures_of=[run_figures(data) for data in runs],
        comparison=comparison,
        compared_columns=COLUMNS,
        compared_kinds=KINDS,
        cases=[case_view(index, items[index], runs, text=text) for index in shown],
        shown=frozenset(shown),
        omitted=len(order) - len(shown),
        specialties=specialties(views[0].rows),
        refreshed=f"{datetime.now().astimezone():%H:%M:%S}",
        text=text,
        live=None,
        script=Markup(script),
        script_hash=_hash_of(script),
        mark_labels=MARK_LABELS,
        mark_symbols=MARK_SYMBOLS,
    )


def _hash_of(script: str) -> str:
    """Return the hash by which a Content-Security-Policy allows an inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


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


def run_view(
    data: ReportData,
    review_mark: Callable[[str], ReviewMark] | None = None,
    *,
    text: bool = True,
) -> RunView:
    """Return the view of one run; `review_mark` tells of a case id who has reviewed the case."""
    run = data.run
    metric = case_metric_name(data)
    scores = {
        case_id: case_scores[metric]
        for case_id, case_scores in data.per_case.items()
        if metric in case_scores
    }
    rows = case_rows(run.cases, data.summaries, scores, review_mark, text=text)
    return RunView(
        data=data,
        run=run,
        title=tasks.find(run.manifest.task).title,
        scoreboard=scoreboard(data),
        rows=rows,
        columns=table_columns(rows, reviews=review_mark is not None),
        state=run_state(run.path, run.manifest, rows, data.summaries, text=text),
        over=scored_cases(data.scores),
    )


def run_figures(data: ReportData) -> RunFigures:
    """Return what the figures of one run are drawn from."""
    predictions = sentence_predictions(data)
    statuses = Counter(summary.status for summary in data.summaries.values())
    return RunFigures(
        statuses=dict(statuses),
        usage=data.run.usage,
        stages=tuple(stage_usage(data.run)),
        calibration=calibration_plot(predictions),
        precision_recall=precision_recall_plot(predictions),
        agreement=agreement_table(data),
    )


def _article_order(views: Sequence[RunView], comparison: RunComparison | None) -> list[int]:
    """Return the indices of all cases: those that differ most first, then the worst first."""
    differing = [case.case_index for case in comparison.case_differences] if comparison else []
    return list(dict.fromkeys([*differing, *(row.case_index for row in views[0].rows)]))


def check_same_task(runs: Sequence[ReportData]) -> None:
    """Raise `CallerError` for runs of different tasks."""
    task_names = sorted({data.run.manifest.task for data in runs})
    if len(task_names) > 1:
        raise CallerError(
            f"These runs are of {' and '.join(task_names)}.\n"
            "A report holds runs of one task side by side."
        )
