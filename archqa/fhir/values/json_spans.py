"""Parts of a JSON text, cut out character by character: numbers stay as they were written, keys in their order.

`5.10` parsed and printed again is `5.1`; what is cut out of the text is not changed at all.
"""

import json
from collections.abc import Iterator
from json.decoder import WHITESPACE  # type: ignore[attr-defined]  # there since Python 2, not in the stubs
from typing import Any, NoReturn


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def parse(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError` (NaN and Infinity are none of JSON) and `RecursionError`."""
    return _DECODER.decode(text)


def members(text: str, at: int = 0) -> Iterator[tuple[str, int, int, Any]]:
    """The members of the JSON object that starts at `at`: name, start and end of the value's text, the value."""
    at = _skip(text, at)
    _expect(text, at, "{")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        _expect(text, at, ":")
        start = _skip(text, at + 1)
        value, end = _DECODER.raw_decode(text, start)
        yield name, start, end, value
        at = _next(text, end, "}")


def items(text: str, at: int = 0) -> Iterator[tuple[int, int, Any]]:
    """The items of the JSON array that starts at `at`: start and end of the item's text, the value."""
    at = _skip(text, at)
    _expect(text, at, "[")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield at, end, value
        at = _next(text, end, "]")


def _next(text: str, at: int, close: str) -> int:
    """Where the next member or item begins, or the closing sign."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    _expect(text, at, close)
    return at


def _skip(text: str, at: int) -> int:
    found = WHITESPACE.match(text, at)
    return int(found.end()) if found else at


def _expect(text: str, at: int, sign: str) -> None:
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting {sign!r}", text, at)
