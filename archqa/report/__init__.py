"""A run as one self-contained HTML page: numbers become drawings, evidence is marked where it stands."""

from archqa.report.notebook import NotebookPage, show_case
from archqa.report.report import report_html, write_report

__all__ = ["NotebookPage", "report_html", "show_case", "write_report"]
