"""JSON of resources and requests: parsed strictly, and cut without changing a character.

`5.10` parsed and printed again is `5.1`; a part that is cut out of the text stays `5.10`.
"""

import json
import math
from collections.abc import Iterator
from json.decoder import WHITESPACE  # type: ignore[attr-defined]  # not in the stubs
from typing import Any, NoReturn

from archqa.core.recorded_numbers import RecordedNumber

_MAX_DEPTH = 210
"""Nested objects and arrays of a reply: a Bundle of resources as deep as a record takes them."""

MAX_REQUEST_DEPTH = 64
"""Nested objects and arrays of a request's body. R4's deepest resources have about 20."""

_TOO_LARGE = "has a number that is too large."


class InvalidBody(ValueError):
    """A body that cannot be used. The text says why, as the rest of a sentence."""


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _parse_float(text: str) -> float:
    number = RecordedNumber(text)
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


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_BOUNDED_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_parse_float,
    parse_int=_parse_int,
)


def parse(text: str) -> Any:
    """Return the value of a JSON text.

    Raises `ValueError` (also for NaN and Infinity, which JSON does not have) and `RecursionError`.
    """
    return _DECODER.decode(text)


def parse_bounded(text: str, max_depth: int = _MAX_DEPTH) -> Any:
    """Return the value of a JSON text from elsewhere; its decimal numbers keep their text.

    Raises `InvalidBody`, also for a number that no float can have, and for more levels.
    """
    too_deep = InvalidBody(f"is nested more than {max_depth} levels deep.")
    try:
        value = _BOUNDED_DECODER.decode(text)
    except InvalidBody:
        raise
    except RecursionError:
        raise too_deep from None
    except ValueError:
        raise InvalidBody("is not JSON.") from None
    # With fewer brackets it cannot be so deep: most texts are not walked through.
    brackets = text.count("{") + text.count("[")
    if brackets > max_depth and is_nested_deeper(value, max_depth):
        raise too_deep
    return value


def parse_request_body(text: str) -> Any:
    """Return the value of a body: JSON that FHIR allows, and no deeper than anything here reads.

    Raises `InvalidBody`.
    """
    value = parse_bounded(text, MAX_REQUEST_DEPTH)
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InvalidBody("holds half a surrogate pair.") from None
        if _has_nul(value):
            raise InvalidBody("holds a NUL character.")
    return value


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether objects and arrays stand in one another in more levels; goes level by level."""
    level = [value]
    for _ in range(levels + 1):
        children: list[Any] = []
        for parent in level:
            if isinstance(parent, dict):
                children.extend(parent.values())
            elif isinstance(parent, list):
                children.extend(parent)
        if not children:
            return False
        level = children
    return True


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(map(_has_nul, value)) or any(map(_has_nul, value.values()))
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return False


def members(text: str, position: int = 0) -> Iterator[tuple[str, int, int, Any]]:
    """Yield name, start, end and value of each member of the JSON object at `position`."""
    position = _open(text, position, "{")
    while text[position : position + 1] != "}":
        name, position = _DECODER.raw_decode(text, position)
        position = _skip_whitespace(text, position)
        _expect(text, position, ":")
        start = _skip_whitespace(text, position + 1)
        value, end = _DECODER.raw_decode(text, start)
        yield name, start, end, value
        position = _next(text, end, "}")


def items(text: str, position: int = 0) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of each item of the JSON array at `position`."""
    position = _open(text, position, "[")
    while text[position : position + 1] != "]":
        value, end = _DECODER.raw_decode(text, position)
        yield position, end, value
        position = _next(text, end, "]")


def _open(text: str, position: int, bracket: str) -> int:
    """Return the position after the opening bracket."""
    position = _skip_whitespace(text, position)
    _expect(text, position, bracket)
    return _skip_whitespace(text, position + 1)


def _next(text: str, position: int, bracket: str) -> int:
    """Return the position of the next member or item, or of the closing bracket."""
    position = _skip_whitespace(text, position)
    if text[position : position + 1] == ",":
        return _skip_whitespace(text, position + 1)
    _expect(text, position, bracket)
    return position


def _skip_whitespace(text: str, position: int) -> int:
    match = WHITESPACE.match(text, position)
    return position if match is None else int(match.end())


def _expect(text: str, position: int, character: str) -> None:
    if text[position : position + 1] != character:
        raise json.JSONDecodeError(f"Expecting {character!r}", text, position)
