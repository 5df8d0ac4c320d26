"""Cells of a CSV file that a spreadsheet shows as text and does not compute.

Source: OWASP, "CSV Injection".
"""

import re
from typing import Any

_FORMULA_START = re.compile(r"[\t\n]|[\s\0\u200b\ufeff]*[=+\-@＝＋－＠]")
"""What makes a spreadsheet read a formula, also after spaces, which it drops; the wide forms do in
Japanese and Chinese versions."""

_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def formula_free(cell: Any) -> Any:
    """The cell; a text that starts like a formula gets an apostrophe in front. Numbers stay.

    A carriage return becomes a line end: the csv module does not quote it, so that it would start
    a row of its own.
    """
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r\n", "\n").replace("\r", "\n")
    if not _FORMULA_START.match(text) or _PLAIN_NUMBER.fullmatch(text):
        return text
    return f"'{text}"
