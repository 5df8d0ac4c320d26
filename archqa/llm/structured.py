"""Typed outputs: from a type to the JSON Schema that a server can enforce, and from a reply's text
to the type (`parse_output`, which has the rules).

The schema follows the strict subset of OpenAI's "Structured outputs": every property required, no
other allowed, and limits on enums: 1,000 values in a whole schema, and 15,000 characters of one
enum with more than 250 values.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from archqa.safety.text import json_without_surrogates

Output = TypeVar("Output", bound=BaseModel)

_ID_CHOICES = "sentence"

SentenceId = Annotated[str, Field(json_schema_extra={"choices": _ID_CHOICES})]
"""An id of a sentence of the note; the schema lists the note's ids, so that none can be invented.
"""

AllowedValues = Mapping[str, Sequence[str]]
"""The values allowed in fields marked with `choices`, by the mark's name; differs from task to
task.
"""

HIDDEN_FROM_MODEL = {"hidden": True}
"""Marks a field that models are not asked for: only other backends fill it."""

MAX_ENUM_VALUES = 1000
_LONG_ENUM = 250
_MAX_CHARACTERS_OF_LONG_ENUM = 15_000

_DROPPED_KEYWORDS = frozenset({"title", "default", "choices"})
_STRUCTURAL_KEYWORDS = frozenset(
    {"$ref", "anyOf", "enum", "items", "required", "type", "additionalProperties"}
)
_DEFINITION = "#/$defs/"
_REFERENCE = re.compile(r'"\$ref": "#/\$defs/([^"]+)"')
_OBJECT_START = re.compile(r'\{\s*["}]')
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_DECODER = json.JSONDecoder(strict=False)  # A text may hold line ends as they are.
_MAX_ATTEMPTS = 1000
"""Braces of a reply that are tried as the start of an object."""

_MAX_LITERAL = 100_000
"""Characters of a reply that is read as a literal of Python."""

_MAX_ERRORS = 8
_MAX_DEPTH = 3
"""Wrappers around an output."""


class Rejected(Exception):
    """An output is not acceptable.

    The message is for the model: what is wrong, and what is allowed.
    """


class Unreadable(Rejected):
    """A reply holds nothing that could be an output."""


class RecursiveSchemaError(ValueError):
    """A schema that refers to itself cannot be written without references."""


def strict_schema(
    output: type[BaseModel], choices: AllowedValues | None = None
) -> dict[str, Any]:
    """The strict JSON Schema of `output`, with the task's choices in the fields marked for them.

    Choices that are too many to list are left out, the longest first: such a field takes any text,
    and the agent's own check rejects what is not allowed.
    """
    listed = {}
    for mark, values in (choices or {}).items():
        characters = sum(len(value) for value in values)
        is_short = (
            len(values) <= _LONG_ENUM or characters <= _MAX_CHARACTERS_OF_LONG_ENUM
        )
        if is_short and len(values) <= MAX_ENUM_VALUES:
            listed[mark] = values
    schema = _strict_object(_schema(output), listed)
    while _enum_value_count(schema) > MAX_ENUM_VALUES and listed:
        schema = _with_shared_enums(schema)
        if _enum_value_count(schema) > MAX_ENUM_VALUES:
            del listed[max(listed, key=lambda mark: len(listed[mark]))]
            schema = _strict_object(_schema(output), listed)
    return schema


def sparse_schema(
    output: type[BaseModel], *, described: bool = False
) -> dict[str, Any]:
    """A short JSON Schema of `output` in which fields with a default may be left out.

    It only says what the fields are called and hold, and with `described` what they mean. No server
    enforces it strictly, since it does not require every property.
    """
    keywords = _STRUCTURAL_KEYWORDS | ({"description"} if described else frozenset())
    bare: dict[str, Any] = _bare(_schema(output), keywords)
    return _with_shared_enums(bare)


def _bare(node: Any, keywords: AbstractSet[str]) -> Any:
    """A schema with some keywords only; what may be null may be absent instead."""
    if isinstance(node, list):
        return [_bare(child, keywords) for child in node]
    if not isinstance(node, dict):
        return node
    bare: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword in {"properties", "$defs"}:
            bare[keyword] = {name: _bare(value[name], keywords) for name in value}
        elif keyword in keywords:
            bare[keyword] = _bare(value, keywords)
    options = [option for option in bare.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        del bare["anyOf"]
        bare.update(options[0])
    if "enum" in bare:
        bare.pop("type", None)  # The values tell it.
    return bare


@cache
def _schema(output: type[BaseModel]) -> dict[str, Any]:
    """Pydantic's own schema, generated once per type: it takes a fifth of the time of a call."""
    return output.model_json_schema()


def _strict_object(schema: dict[str, Any], choices: AllowedValues) -> dict[str, Any]:
    """The strict schema with these choices, without the definitions that they take the place of."""
    strict: dict[str, Any] = _strict(schema, choices)
    definitions = strict.pop("$defs", {})
    used: set[str] = set()
    pending = [strict]
    while pending:
        for name in _REFERENCE.findall(json.dumps(pending.pop())):
            if name not in used:
                used.add(name)
                pending.append(definitions[name])
    if not used:
        return strict
    return {
        "$defs": {name: definitions[name] for name in definitions if name in used},
        **strict,
    }


def _strict(node: Any, choices: AllowedValues) -> Any:
    if isinstance(node, list):
        return [_strict(child, choices) for child in node]
    if not isinstance(node, dict):
        return node
    allowed_values = choices.get(node.get("choices", ""))
    if allowed_values:
        return {"type": "string", "enum": list(allowed_values)}
    strict: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword in {"properties", "$defs"}:
            # The keys are names, not keywords: only hidden ones go. Ids come first, so that what
            # follows is said of a sentence already named.
            strict[keyword] = {}
            for name in sorted(value, key=lambda name: not _holds_ids(value[name])):
                if not value[name].get("hidden"):
                    strict[keyword][name] = _strict(value[name], choices)
        elif keyword not in _DROPPED_KEYWORDS:
            strict[keyword] = _strict(value, choices)
    if isinstance(strict.get("properties"), dict):
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


def _holds_ids(schema: Mapping[str, Any]) -> bool:
    """Whether a property is an id of a sentence or a list of ids."""
    value: Mapping[str, Any] = schema.get("items", schema)
    return bool(value.get("choices") == _ID_CHOICES)


def _enum_value_count(schema: dict[str, Any]) -> int:
    """How many values the enums of a schema have together."""
    return sum(len(enum["enum"]) for enum in _enums(schema))


def _with_shared_enums(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with enums that stand in several places listed once in `$defs`."""
    counts = Counter(json.dumps(enum) for enum in _enums(schema))
    definitions: dict[str, Any] = {}
    references: dict[str, Any] = {}
    for enum, count in counts.items():
        if count > 1:
            name = f"choices_{len(definitions) + 1}"
            definitions[name] = json.loads(enum)
            references[enum] = {"$ref": f"{_DEFINITION}{name}"}
    shared = dict(_with_references(schema, references))
    if definitions:
        shared["$defs"] = {**shared.get("$defs", {}), **definitions}
    return shared


def _enums(node: Any) -> Iterator[dict[str, Any]]:
    """Every enum of texts in a schema."""
    children: Sequence[Any] = ()
    if isinstance(node, list):
        children = node
    elif isinstance(node, dict):
        if isinstance(node.get("enum"), list):
            yield node
            return
        children = list(node.values())
    for child in children:
        yield from _enums(child)


def _with_references(node: Any, references: Mapping[str, Any]) -> Any:
    """The schema with a reference in the place of each enum that has one, by the enum's JSON."""
    if isinstance(node, list):
        return [_with_references(child, references) for child in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("enum"), list) and json.dumps(node) in references:
        return references[json.dumps(node)]
    return {
        keyword: _with_references(child, references) for keyword, child in node.items()
    }


def without_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every definition in the place of its references, for programs that read none.

    Raises `RecursiveSchemaError`.
    """
    definitions = schema.get("$defs", {})
    top_level = {name: value for name, value in schema.items() if name != "$defs"}
    resolved: dict[str, Any] = _resolved(top_level, definitions, ())
    return resolved


def _resolved(
    value: Any, definitions: Mapping[str, Any], parents: tuple[str, ...]
) -> Any:
    if isinstance(value, list):
        return [_resolved(item, definitions, parents) for item in value]
    if not isinstance(value, Mapping):
        return value
    reference = value.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_DEFINITION):
        return {
            name: _resolved(inner, definitions, parents)
            for name, inner in value.items()
        }
    name = reference.removeprefix(_DEFINITION)
    if name in parents:
        raise RecursiveSchemaError(name)
    siblings = {key: inner for key, inner in value.items() if key != "$ref"}
    return _resolved({**definitions[name], **siblings}, definitions, (*parents, name))


def parse_output(text: str, output: type[Output]) -> Output:
    """The output in `text`.

    1. Fences, prose and thoughts around a JSON object are ignored; in its texts, line ends may stand
       as they are.
    2. Of several objects the last that fits counts, so that no draft is taken for the answer.
    3. A wrapper is opened: an object without any field of the output, or JSON that is a text.
    4. Where nothing fits, commas too many are left out, and a literal of Python is read.

    Raises `Unreadable` where there is no object, `Rejected` with all that is wrong with the last
    one that has a field of the output.
    """
    problem: ValidationError | None = None
    is_attempt = False
    for node in _find_objects(text):
        for candidate in _with_wrapped(node, output):
            try:
                return output.model_validate(candidate)
            except ValidationError as error:
                has_fields = _has_fields(candidate, output)
                if problem is None or (has_fields and not is_attempt):
                    problem, is_attempt = error, has_fields
    if problem is None:
        raise Unreadable(
            "Your reply holds no complete JSON object. Reply with the JSON object alone."
        )
    # Without the input that pydantic quotes.
    details = problem.errors(
        include_url=False, include_input=False, include_context=False
    )
    lines = ["Your JSON does not fit the schema."]
    for detail in details[:_MAX_ERRORS]:
        path = ".".join(map(str, detail["loc"]))
        lines.append(f"{path or 'The object'}: {detail['msg']}.")
    if details[_MAX_ERRORS:]:
        lines.append(f"And {len(details) - _MAX_ERRORS} further places.")
    raise Rejected("\n".join(lines))


def _find_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost objects of a reply, the last first; then what a lenient reader sees."""
    text = text.strip()
    with suppress(ValueError, RecursionError):
        whole = _DECODER.decode(text)
        text = whole if isinstance(whole, str) else text
    for reading in (text, _TRAILING_COMMA.sub(r"\1", text)):
        objects = _scan_objects(reading)
        for node in reversed(objects):
            if node or len(objects) == 1:
                yield json_without_surrogates(node)
    literal = text[text.find("{") : text.rfind("}") + 1]
    if len(literal) <= _MAX_LITERAL:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            node = ast.literal_eval(literal)
            if isinstance(node, dict):
                yield json_without_surrogates(node)


def _scan_objects(text: str) -> list[dict[str, Any]]:
    objects = []
    place = 0
    for _ in range(_MAX_ATTEMPTS):
        start = _OBJECT_START.search(text, place)
        if start is None:
            break
        try:
            node, place = _DECODER.raw_decode(text, start.start())
            objects.append(node)
        except RecursionError:
            break
        except ValueError:  # Also a number with too many digits.
            place = start.start() + 1
    return objects


def _with_wrapped(node: Any, output: type[BaseModel], depth: int = 0) -> Iterator[Any]:
    """An object and, where none of its names is a field of the output, those that it wraps."""
    yield node
    if depth > _MAX_DEPTH or _has_fields(node, output):
        return
    children: Iterable[Any] = ()
    if isinstance(node, dict):
        children = reversed(node.values())
    elif isinstance(node, list):
        children = reversed(node)
    elif isinstance(node, str):
        children = _find_objects(node)
    for child in children:
        if child:
            yield from _with_wrapped(child, output, depth + 1)


def _has_fields(node: Any, output: type[BaseModel]) -> bool:
    """Whether an object has a field of the output, so that it is one or should be."""
    return isinstance(node, dict) and bool(node.keys() & output.model_fields.keys())
