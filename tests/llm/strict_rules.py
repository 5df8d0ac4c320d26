"""The documented rules of OpenAI's "Structured outputs" for schemas with `strict: true`, written anew.

Source: OpenAI API guide, "Structured model outputs: supported schemas", as remembered in November 2026; that `$ref` has
no other keyword beside it and that every schema has a type is from the API's error messages.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

MAX_PROPERTIES = 5000
MAX_NESTING = 10
MAX_ENUM_VALUES = 1000
LONG_ENUM = 250
MAX_CHARACTERS_OF_A_LONG_ENUM = 15_000
MAX_CHARACTERS_OF_NAMES = 120_000

KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"}
    | {"description", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems"}
)  # fmt: skip
TYPES = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    }
)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Node(NamedTuple):
    """A schema within a schema, and where it stands."""

    path: str
    schema: Json


def violations(name: str, root: Json) -> list[str]:
    """What OpenAI would refuse a strict schema for; nothing if it would take it."""
    nodes = list(_nodes("", root))
    found = [
        f"{node.path}: {problem}" for node in nodes for problem in _problems(node, root)
    ]
    if not NAME.fullmatch(name):
        found.append(f"the name {name!r}")
    if root.get("type") != "object" or "anyOf" in root:
        found.append("the root is no plain object")
    return [*found, *_over_limits(nodes, root)]


def enum_values(root: Json) -> int:
    """The values of all enums together."""
    return sum(len(node.schema.get("enum", ())) for node in _nodes("", root))


def _nodes(path: str, schema: Any) -> Iterator[Node]:
    """A schema and all schemas within it; names of properties are no keywords."""
    if not isinstance(schema, dict):
        return
    yield Node(path or "/", schema)
    for keyword in ("properties", "$defs"):
        for name, child in schema.get(keyword, {}).items():
            yield from _nodes(f"{path}/{keyword}/{name}", child)
    yield from _nodes(f"{path}/items", schema.get("items"))
    for place, child in enumerate(schema.get("anyOf", ())):
        yield from _nodes(f"{path}/anyOf/{place}", child)


def _problems(node: Node, root: Json) -> Iterator[str]:
    schema = node.schema
    unknown = set(schema) - KEYWORDS
    if unknown:
        yield f"keywords {sorted(unknown)}"
    if "$ref" in schema:
        yield from _reference_problems(schema, root)
        return
    yield from _type_problems(schema)
    if schema.get("type") == "object" or "properties" in schema:
        yield from _object_problems(schema)
    characters = sum(map(len, schema.get("enum", ())))
    if (
        len(schema.get("enum", ())) > LONG_ENUM
        and characters > MAX_CHARACTERS_OF_A_LONG_ENUM
    ):
        yield f"{characters} characters of an enum"


def _reference_problems(schema: Json, root: Json) -> Iterator[str]:
    if set(schema) != {"$ref"}:
        yield f"$ref beside {sorted(schema)}"
    name = schema["$ref"].removeprefix("#/$defs/")
    if schema["$ref"] != "#" and name not in root.get("$defs", {}):
        yield f"$ref to {schema['$ref']}"


def _type_problems(schema: Json) -> Iterator[str]:
    types = schema.get("type")
    named = set(types if isinstance(types, list) else [types])
    if "anyOf" not in schema and not named <= TYPES:
        yield f"type {types}"
    if "array" in named and "items" not in schema:
        yield "an array of anything"
    if schema.get("format", "date") not in FORMATS:
        yield f"format {schema['format']}"


def _object_problems(schema: Json) -> Iterator[str]:
    if schema.get("additionalProperties") is not False:
        yield "additional properties"
    if schema.get("required") != list(schema.get("properties", {})):
        yield "a property that is not required"


def _over_limits(nodes: list[Node], root: Json) -> Iterator[str]:
    properties = sum(len(node.schema.get("properties", ())) for node in nodes)
    if properties > MAX_PROPERTIES:
        yield f"{properties} properties"
    values = enum_values(root)
    if values > MAX_ENUM_VALUES:
        yield f"{values} enum values"
    characters = sum(_characters_of_names(node.schema) for node in nodes)
    if characters > MAX_CHARACTERS_OF_NAMES:
        yield f"{characters} characters of names and values"
    depth = _depth(root, root, ())
    if depth > MAX_NESTING:
        yield f"{depth} levels of nesting"


def _characters_of_names(schema: Json) -> int:
    names = [
        *schema.get("properties", ()),
        *schema.get("$defs", ()),
        *schema.get("enum", ()),
    ]
    names += [schema["const"]] if "const" in schema else []
    return sum(len(str(name)) for name in names)


def _depth(schema: Json, root: Json, within: tuple[str, ...]) -> int:
    """Levels of objects and arrays; a schema within itself is counted once."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        part = root.get("$defs", {}).get(name, {})
        return 0 if name in within else _depth(part, root, (*within, name))
    children = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    children += [schema["items"]] if "items" in schema else []
    deepest = max((_depth(child, root, within) for child in children), default=0)
    return deepest + (schema.get("type") in {"object", "array"})


def copied(schema: Json) -> Json:
    """A schema that may be spoilt."""
    spoilt: Json = json.loads(json.dumps(schema))
    return spoilt
