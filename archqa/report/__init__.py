"""Runs as self-contained HTML pages: scores, figures, and answers with their evidence marked."""

from archqa.report.notebook import NotebookPage, show_case
from archqa.report.report import report_html, write_report

__all__ = ["NotebookPage", "report_html", "show_case", "write_report"]
