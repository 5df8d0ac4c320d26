"""JSON Schemas without references, for programs that read none."""

from collections.abc import Mapping
from typing import Any

_PREFIX = "#/$defs/"


class RecursiveSchemaError(ValueError):
    """A schema that refers to itself cannot be written without references."""


def without_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every definition in the place of its references.

    Raises `RecursiveSchemaError`.
    """
    definitions = schema.get("$defs", {})
    rest = {name: value for name, value in schema.items() if name != "$defs"}
    resolved: dict[str, Any] = _resolved(rest, definitions, ())
    return resolved


def _resolved(value: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_resolved(item, definitions, inside) for item in value]
    if not isinstance(value, Mapping):
        return value
    reference = value.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_PREFIX):
        return {name: _resolved(inner, definitions, inside) for name, inner in value.items()}
    name = reference.removeprefix(_PREFIX)
    if name in inside:
        raise RecursiveSchemaError(name)
    siblings = {key: inner for key, inner in value.items() if key != "$ref"}
    return _resolved({**definitions[name], **siblings}, definitions, (*inside, name))
