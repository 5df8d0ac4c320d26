"""How many values a strict schema may list, and what is done where a task has more.

Source: OpenAI API guide, "Structured model outputs", limits on enums: 1,000 values in a whole
schema, and 15,000 characters of one enum with more than 250 values.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

MAX_ENUM_VALUES = 1000
_LONG_ENUM = 250
_MAX_CHARACTERS_OF_LONG_ENUM = 15_000


def may_be_listed(values: Sequence[str]) -> bool:
    """Whether an enum may have these values."""
    if len(values) <= _LONG_ENUM:
        return True
    characters = sum(len(value) for value in values)
    return len(values) <= MAX_ENUM_VALUES and characters <= _MAX_CHARACTERS_OF_LONG_ENUM


def fits(schema: dict[str, Any]) -> bool:
    """Whether the enums of a schema together have no more values than allowed."""
    return sum(len(enum["enum"]) for enum in _enums(schema)) <= MAX_ENUM_VALUES


def with_enums_once(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with enums that stand in several places listed once in `$defs`."""
    counts = Counter(_key(enum) for enum in _enums(schema))
    repeated = [key for key, count in counts.items() if count > 1]
    names = {key: f"choices_{number}" for number, key in enumerate(repeated, start=1)}
    shared = _with_references(schema, names)
    definitions = {name: json.loads(key) for key, name in names.items()}
    if definitions:
        shared["$defs"] = {**shared.get("$defs", {}), **definitions}
    return dict(shared)


def _enums(node: Any) -> Iterator[dict[str, Any]]:
    """Every enum of texts in a schema."""
    if _is_enum(node):
        yield node
    elif isinstance(node, dict):
        for child in node.values():
            yield from _enums(child)
    elif isinstance(node, list):
        for child in node:
            yield from _enums(child)


def _is_enum(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("enum"), list)


def _with_references(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, list):
        return [_with_references(child, names) for child in node]
    if not isinstance(node, dict):
        return node
    if _is_enum(node) and _key(node) in names:
        return {"$ref": f"#/$defs/{names[_key(node)]}"}
    return {keyword: _with_references(child, names) for keyword, child in node.items()}


def _key(enum: dict[str, Any]) -> str:
    return json.dumps(enum)
