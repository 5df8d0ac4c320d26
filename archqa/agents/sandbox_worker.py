"""Runs a model's code inside the sandbox and turns its `answer` into one string.

The sandbox runs this file first. The code gets a namespace of its own, so it cannot reach or
redefine anything here. Written in the part of Python that the sandbox supports.
"""

import datetime
import json
from typing import Any


def run(
    prelude: str, code: str, inputs: dict[str, Any], max_characters: int
) -> dict[str, Any]:
    """The `answer` that code set, or the `exception` that ended it and its `message`."""
    namespace: dict[str, Any] = {}
    exec(prelude, namespace)
    namespace.update(inputs)
    try:
        exec(code, namespace)
        return {"answer": _answer(namespace.get("answer"), max_characters)}
    except BaseException as error:
        return {"exception": type(error).__name__, "message": f"{error!s:.2000}"}


def _answer(value: Any, max_characters: int) -> Any:
    """An answer as JSON values, or the beginning of its text if that is too long."""
    text = value if isinstance(value, str) else str(value)
    missing = len(text) - max_characters
    if missing > 0:
        return f"{text[:max_characters]}… (truncated, {missing} more characters)"
    try:
        values = _json_values(value, [])
        json.dumps(values)
    except (TypeError, RecursionError):
        return f"(a {type(value).__name__} that JSON has no form for)"
    return values


def _json_values(value: Any, parents: list[Any]) -> Any:
    """Times as text, sets as sorted lists, anything else that JSON lacks as its text."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, (list, tuple, set, frozenset, dict)):
        return str(value)
    for parent in parents:
        if parent is value:
            return "{...}" if isinstance(value, dict) else "[...]"
    parents = [*parents, value]
    if isinstance(value, dict):
        return {key: _json_values(value[key], parents) for key in value}
    items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
    return [_json_values(item, parents) for item in items]
