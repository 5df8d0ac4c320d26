"""Answers to questions on a record as text: the values of a list instead of its notation."""

import ast
import json
import re
from contextlib import suppress
from typing import Any

_ROW_BREAK = re.compile(r"\]\s*\n\s*\[")
_MISSING = re.compile(r"\b(?:nan|null)\b")


def answer_text(answer: str) -> str:
    """Return the values of an answer that is a JSON list or a printed array.

    `["a", "b"]` becomes `a, b`, and `[["a", 1], ["b", 2]]` becomes `a, 1; b, 2`. Any other text is
    returned as it is.
    """
    values = _parse_list(answer)
    if values is None:
        return answer
    if all(isinstance(value, list) and len(value) == 1 for value in values):
        values = [value[0] for value in values]
    if any(isinstance(value, list) for value in values):
        return "; ".join(_row_text(value) for value in values)
    return _row_text(values)


def _parse_list(answer: str) -> list[Any] | None:
    """Return the list; a printed numpy array has line breaks for commas, and nan for no value."""
    if not answer.lstrip().startswith("["):
        return None
    with_commas = _ROW_BREAK.sub("],[", answer).replace("\n", ",")
    printed = _MISSING.sub("None", with_commas)
    for read, text in ((json.loads, answer), (ast.literal_eval, printed)):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            values = read(text)
            return values if isinstance(values, list) else None
    return None


def _row_text(row: Any) -> str:
    values = row if isinstance(row, list) else [row]
    return ", ".join(_value_text(value) for value in values) or "no value"


def _value_text(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
