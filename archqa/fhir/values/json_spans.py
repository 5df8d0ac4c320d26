"""Cut parts out of a JSON text without changing a character: numbers and key order stay as written.

`5.10` parsed and printed again is `5.1`; a part that is cut out of the text stays `5.10`.
"""

import json
from collections.abc import Iterable, Iterator
from json.decoder import WHITESPACE  # type: ignore[attr-defined]  # not in the stubs
from typing import Any, NoReturn


def refuse_constant(constant: str) -> NoReturn:
    """Raise `ValueError` for NaN and Infinity."""
    raise ValueError(f"{constant} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def parse(text: str) -> Any:
    """Return the value of a JSON text.

    Raises `ValueError` (also for NaN and Infinity, which JSON does not have) and `RecursionError`.
    """
    return _DECODER.decode(text)


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether objects and arrays stand in one another in more levels; goes level by level."""
    level = [value]
    for _ in range(levels + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


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
    """Yield the items of the JSON array at `position`: start and end of the item, value."""
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
    if match is None:
        return position
    return int(match.end())


def _expect(text: str, position: int, character: str) -> None:
    if text[position : position + 1] != character:
        raise json.JSONDecodeError(f"Expecting {character!r}", text, position)
