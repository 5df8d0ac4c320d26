"""Parse the body of a request: JSON that FHIR allows, and no deeper than anything here reads."""

import json
import math
from typing import Any

from archqa.fhir.values.json_spans import refuse_constant

MAX_DEPTH = 64
"""Nested objects and arrays of a body. R4's deepest resources have about 20."""


class InvalidBody(ValueError):
    """A body that cannot be used. The text says why, as the rest of a sentence."""


def parse_request_body(text: str) -> Any:
    """Return the value of a body. Raises `InvalidBody`."""
    try:
        value = _DECODER.decode(text)
    except InvalidBody:
        raise
    except RecursionError:
        raise InvalidBody(_TOO_DEEP) from None
    except ValueError:
        raise InvalidBody("is not JSON.") from None
    _check_depth(value)
    if "\\u" in text:
        _check_characters(value)
    return value


_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep."
_TOO_LARGE = "has a number that is too large."


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidBody(_TOO_LARGE)
    return number


def _parse_int(text: str) -> int:
    try:
        number = int(text)
        float(number)
    except (ValueError, OverflowError):
        raise InvalidBody(_TOO_LARGE) from None
    return number


_DECODER = json.JSONDecoder(
    parse_constant=refuse_constant, parse_float=_parse_float, parse_int=_parse_int
)


def _check_depth(value: Any) -> None:
    """Raise `InvalidBody` for a value that is too deep; goes level by level, not recursively."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    raise InvalidBody(_TOO_DEEP)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    return []


def _check_characters(value: Any) -> None:
    """Raise `InvalidBody` for a character that no text has: NUL, half a surrogate pair."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidBody("holds half a surrogate pair.") from None
    if _has_nul(value):
        raise InvalidBody("holds a NUL character.")


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(map(_has_nul, value)) or any(map(_has_nul, value.values()))
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return False
