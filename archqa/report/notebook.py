"""A case of a run inside a notebook, drawn as the report draws it and fenced off from the notebook's own style."""

from html import escape
from pathlib import Path

from archqa.errors import CallerError
from archqa.report.case_view import case_view
from archqa.report.material import load_report_data
from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS
from archqa.report.page import render


class NotebookPage:
    """A page that a notebook shows in a frame of its own; `html` is all of it."""

    def __init__(self, html: str, height: int) -> None:
        self.html = html
        self._height = height

    def __repr__(self) -> str:
        return f"Shown({len(self.html):,} characters of HTML)"

    def _repr_html_(self) -> str:
        frame = f'style="width:100%;height:{self._height}px;border:0" sandbox'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'


def show_case(
    run: str | Path, case_id: str, *, key: Path | None = None, height: int = 720
) -> NotebookPage:
    """One case of a run: question, answer, the note with its evidence marked, who held what.

    Raises `CallerError` for a case the run does not have, `InputError` for what is no run.
    """
    material = load_report_data(run, key)
    places = {item.id: at for at, item in enumerate(material.run.cases)}
    if case_id not in places:
        raise CallerError(f"The run has no case {case_id!r}.\nIt has: {', '.join(places)}.")
    place = places[case_id]
    view = case_view(place, material.run.cases[place], [material])
    page = render(
        "alone.html.jinja",
        case=view,
        digits=material.decimals,
        words=MARK_LABELS,
        signs=MARK_SYMBOLS,
        text=True,
        live=None,
    )
    return NotebookPage(page, height)
