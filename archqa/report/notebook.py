"""A case of a run inside a notebook: the report's view in a frame with its own style."""

from html import escape
from pathlib import Path

from archqa.core.near_misses import no_such_case
from archqa.report.case_view import case_view
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS
from archqa.report.page import render
from archqa.report.report_data import load_report_data
from archqa.runs.run import Run
from archqa.safety.arguments import as_optional_path


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
    run: str | Path | Run, case_id: str, *, key: str | Path | None = None, height: int = 720
) -> NotebookPage:
    """Return one case of a run: question, answer, marked note, and the agents' judgements.

    Raises `CallerError` for a case that the run does not have, `InputError` if `run` is not a run.
    """
    path = run.path if isinstance(run, Run) else run
    data = load_report_data(path, as_optional_path(key, "key"))
    index_of = {item.id: index for index, item in enumerate(data.run.cases)}
    if case_id not in index_of:
        raise no_such_case(case_id, list(index_of))
    case_index = index_of[case_id]
    page = render(
        "alone.html.jinja",
        case=case_view(case_index, data.run.cases[case_index], [data]),
        decimals=data.decimals,
        mark_labels=MARK_LABELS,
        mark_symbols=MARK_SYMBOLS,
        text=True,
        live=None,
    )
    return NotebookPage(page, height)
