"""Text from notes, replies and ids made safe: to print in a terminal, to store as UTF-8, and to open
in a spreadsheet.
"""

import json
import re
from typing import Any

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""C0 and C1 control characters but tab and newline, bidirectional overrides, lone surrogates.

An escape sequence could move the cursor, set the title or hide text (CVE-2003-0063); an override
shows text in another order (CVE-2021-42574).
"""

_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half characters, which no UTF-8 file can hold. They come from JSON escapes (`\\ud800`) and from
arguments of a command that are not UTF-8."""

_FORMULA_START = re.compile(r"[\t\n]|[\s\0\u200b\ufeff]*[=+\-@＝＋－＠]")
"""What makes a spreadsheet read a formula, also after spaces, which it drops; the wide forms do in
Japanese and Chinese versions. Source: OWASP, "CSV Injection"."""

_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d++\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def printable(text: str) -> str:
    r"""The text with each control character as its escape, such as `\x1b`."""
    return _CONTROL.sub(
        lambda match: match[0].encode("unicode_escape").decode("ascii"), text
    )


def printable_json(text: str) -> str:
    r"""A JSON text of the same meaning, with each control character as its escape (`\u009b`).

    Outside strings, JSON has no control character but white space: a carriage return, which lets
    one line hide another, becomes a line end.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], text)


def has_surrogates(text: str) -> bool:
    """Whether a text holds half characters."""
    return _SURROGATE.search(text) is not None


def without_surrogates(text: str) -> str:
    """The text with the replacement character in place of each lone surrogate."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def json_without_surrogates(value: Any) -> Any:
    """A parsed JSON value without lone surrogates in its texts, also in those that name fields."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [json_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {
            without_surrogates(name): json_without_surrogates(item)
            for name, item in value.items()
        }
    return value


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
