"""The report: one HTML page about runs that needs nothing but a browser, and no network.

Its one script, inline and allowed by its hash, sorts and filters the table of cases; the page reads
without it. A notebook shows one of its cases in a frame.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from archqa import tasks
from archqa.core.near_misses import no_such_case
from archqa.errors import CallerError
from archqa.report.case_table import (
    CaseRow,
    ReviewMark,
    TableColumn,
    case_rows,
    specialties,
    table_columns,
)
from archqa.report.case_view import case_view
from archqa.report.comparison import COLUMNS, KINDS, compare_for_report
from archqa.report.figures import run_figures
from archqa.report.page import TEMPLATES, render, time_of_day
from archqa.report.report_data import ReportData, load_report_data
from archqa.report.run_state import RunState, run_state
from archqa.report.scoreboard import Scoreboard, scoreboard, scored_cases
from archqa.runs.run import Run
from archqa.safety.arguments import as_optional_path
from archqa.safety.files import write_private_text

MAX_ARTICLES = 300
"""Cases that a report shows in full, the worst ones; its table has all."""


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


def report_html(
    paths: Sequence[str | Path],
    *,
    key: Path | None = None,
    text: bool = True,
) -> str:
    """Return the page about one run or several; the page of two starts with their differences.

    Without `text`, it has numbers, ids and labels, but no text of the record. Raises `InputError`
    for a folder that is not a run, `CallerError` for runs of different tasks.
    """
    if not paths:
        raise CallerError("A report is about at least one run.\nName a run folder.")
    runs = [load_report_data(path, key) for path in paths]
    check_same_task(runs)
    views = [run_view(data, text=text) for data in runs]
    comparison = None
    order: list[int] = []
    if len(runs) == 2:
        comparison = compare_for_report(runs[0], runs[1], key, text=text)
        order += [case.case_index for case in comparison.cases if case.differs]
    order += [row.case_index for row in views[0].rows]
    order = list(dict.fromkeys(order))  # The cases that differ most, then the worst.
    article_indices = order[:MAX_ARTICLES]
    items = list(runs[0].run.cases)
    articles = []
    for index in article_indices:
        articles.append(case_view(index, items[index], runs, text=text))
    script = (TEMPLATES / "case_table.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    return render(
        "report.html.jinja",
        runs=views,
        figures_of=[run_figures(data) for data in runs],
        comparison=comparison,
        compared_columns=COLUMNS,
        compared_kinds=KINDS,
        cases=articles,
        linked_indices=frozenset(article_indices),
        omitted=len(order) - len(articles),
        specialties=specialties(items),
        refreshed=time_of_day(),
        text=text,
        live=None,
        script=Markup(script),
        script_hash=f"sha256-{base64.b64encode(digest).decode()}",
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
        raise CallerError(
            f"{out} is a folder.\nName a file in an existing one with --out."
        )
    if out and not out.parent.is_dir():
        raise CallerError(
            f"{out.parent} is no folder.\nName a file in an existing one with --out."
        )
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
    """Return the view of one run; `review_mark` says who has reviewed the case of an id."""
    run = data.run
    rows = case_rows(data, review_mark, text=text)
    state = run_state(run.path, run.manifest, rows, data.summaries, text=text)
    return RunView(
        data=data,
        run=run,
        title=tasks.find(run.manifest.task).title,
        scoreboard=scoreboard(data),
        rows=rows,
        columns=table_columns(rows, reviews=review_mark is not None),
        state=state,
        over=scored_cases(data.scores),
    )


def check_same_task(runs: Sequence[ReportData]) -> None:
    """Raise `CallerError` for runs of different tasks."""
    task_names = sorted({data.run.manifest.task for data in runs})
    if len(task_names) > 1:
        raise CallerError(
            f"These runs are of {' and '.join(task_names)}.\n"
            "A report holds runs of one task side by side."
        )


class NotebookPage:
    """A page that a notebook shows in an iframe; `html` is the whole page."""

    def __init__(self, html: str, height: int) -> None:
        self.html = html
        self._height = height

    def __repr__(self) -> str:
        return f"NotebookPage({len(self.html):,} characters of HTML)"

    def _repr_html_(self) -> str:
        frame = f'style="width:100%;height:{self._height}px;border:0" sandbox'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'


def show_case(
    run: str | Path | Run,
    case_id: str,
    *,
    key: str | Path | None = None,
    height: int = 720,
) -> NotebookPage:
    """Return one case of a run: question, answer, marked note, and the agents' judgements.

    Raises `CallerError` for a case that the run does not have, `InputError` if `run` is not a run.
    """
    path = run.path if isinstance(run, Run) else run
    data = load_report_data(path, as_optional_path(key, "key"))
    case_ids = [item.id for item in data.run.cases]
    if case_id not in case_ids:
        raise no_such_case(case_id, case_ids)
    case_index = case_ids.index(case_id)
    case = case_view(case_index, data.run.cases[case_index], [data])
    page = render(
        "alone.html.jinja",
        case=case,
        decimals=data.decimals,
        text=True,
        live=None,
    )
    return NotebookPage(page, height)
