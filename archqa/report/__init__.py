"""Runs as self-contained HTML pages: scores, figures, and answers with their evidence marked."""

from typing import TYPE_CHECKING

from archqa.core.public_names import imported_on_use

if TYPE_CHECKING:
    from archqa.report.page import brief_html
    from archqa.report.report import NotebookPage, report_html, show_case, write_report

__all__ = ["NotebookPage", "brief_html", "report_html", "show_case", "write_report"]


_NAMES = {
    "page": ["brief_html"],
    "report": ["NotebookPage", "report_html", "show_case", "write_report"],
}
"""The page of a brief needs no scores."""

__getattr__ = imported_on_use(__name__, _NAMES)
