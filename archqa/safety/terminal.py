"""Text from notes, replies and ids, made safe to print in a terminal."""

import json
import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 control characters but tab and newline, bidirectional overrides, lone surrogates.

An escape sequence could move the cursor, set the title or hide text (CVE-2003-0063); an override
shows text in another order (CVE-2021-42574).
"""


def printable(text: str) -> str:
    r"""The text with each control character as its escape, such as `\x1b`."""
    return _CONTROL.sub(_escape, text)


def printable_json(text: str) -> str:
    r"""A JSON text of the same meaning, with each control character as its escape (`\u009b`).

    Outside strings, JSON has no control character but white space: a carriage return, which lets
    one line hide another, becomes a line end.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(_escape_in_json, text)


def _escape_in_json(match: re.Match[str]) -> str:
    quoted = json.dumps(match[0])
    return quoted[1:-1]


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
