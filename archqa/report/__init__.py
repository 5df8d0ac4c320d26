"""Runs as self-contained HTML pages: scores, figures, and answers with their evidence marked."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archqa.report.page import brief_html
    from archqa.report.report import NotebookPage, report_html, show_case, write_report

__all__ = ["NotebookPage", "brief_html", "report_html", "show_case", "write_report"]


def __getattr__(name: str) -> object:
    """Import a public name when it is used first: the page of a brief needs no scores."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'archqa.report' has no attribute {name!r}")
    module = "page" if name == "brief_html" else "report"
    return getattr(import_module(f"archqa.report.{module}"), name)
