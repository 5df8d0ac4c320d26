"""Typed outputs: from a type to the JSON Schema that a server can enforce, and from a reply's text
to the type.

The schema follows the strict subset of OpenAI's "Structured outputs": every property required, no
other allowed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from archqa.llm.enum_limits import fits, may_be_listed, with_enums_once
from archqa.safety.whole_characters import whole_json

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

_DROPPED_KEYWORDS = frozenset({"title", "default", "choices"})
_REFERENCE = re.compile(r'"\$ref": "#/\$defs/([^"]+)"')
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)
_OBJECT_START = re.compile(r"\{\s*[\"}]")
_MAX_ERRORS = 8


class Rejected(Exception):
    """An output is not acceptable.

    The message is for the model: what is wrong, and what is allowed.
    """


def strict_schema(output: type[BaseModel], choices: AllowedValues | None = None) -> dict[str, Any]:
    """The strict JSON Schema of `output`, with the task's choices in the fields marked for them.

    Choices that are too many to list are left out, the longest first: such a field takes any text,
    and the agent's own check rejects what is not allowed.
    """
    listed = {}
    for mark, values in (choices or {}).items():
        if may_be_listed(values):
            listed[mark] = values
    schema = _schema_listing(output, listed)
    while not fits(schema) and listed:
        schema = with_enums_once(schema)
        if not fits(schema):
            del listed[max(listed, key=lambda mark: len(listed[mark]))]
            schema = _schema_listing(output, listed)
    return schema


def _schema_listing(output: type[BaseModel], choices: AllowedValues) -> dict[str, Any]:
    """The strict schema with all these choices."""
    schema = _strict(_schema(output), choices)
    assert isinstance(schema, dict)
    return _without_unused_definitions(schema)


def parse_output(text: str, output: type[Output]) -> Output:
    """The output in `text`, which may have fences, thoughts or prose around it.

    Raises `Rejected`.
    """
    try:
        return output.model_validate(_find_object(text))
    except ValidationError as error:
        raise Rejected(_error_message(error)) from None


@cache
def _schema(output: type[BaseModel]) -> dict[str, Any]:
    """Pydantic's own schema, generated once per type: it takes a fifth of the time of a call."""
    return output.model_json_schema()


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
        if keyword not in _DROPPED_KEYWORDS:
            strict[keyword] = _strict_value(keyword, value, choices)
    if isinstance(strict.get("properties"), dict):
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


def _without_unused_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the `$defs` that choices have taken the place of."""
    definitions = schema.pop("$defs", {})
    used: dict[str, Any] = {}
    names = _referenced_names(schema)
    while names:
        name = names.pop()
        if name not in used:
            used[name] = definitions[name]
            names |= _referenced_names(definitions[name])
    if not used:
        return schema
    return {"$defs": {name: definitions[name] for name in definitions if name in used}, **schema}


def _referenced_names(node: Any) -> set[str]:
    """The names of the definitions that a schema refers to."""
    return set(_REFERENCE.findall(json.dumps(node)))


def _strict_value(keyword: str, value: Any, choices: AllowedValues) -> Any:
    """The strict value of a keyword.

    Keys of `properties` and `$defs` are names, not keywords: only hidden ones go.
    """
    if keyword not in {"properties", "$defs"}:
        return _strict(value, choices)
    strict = {}
    for name in sorted(value, key=lambda name: not _holds_ids(value[name])):
        if not value[name].get("hidden"):
            strict[name] = _strict(value[name], choices)
    return strict


def _holds_ids(schema: Mapping[str, Any]) -> bool:
    """Whether a property is an id or a list of ids: these come first, so that what follows is said
    of a sentence already named.
    """
    value: Mapping[str, Any] = schema.get("items", schema)
    return bool(value.get("choices") == _ID_CHOICES)


def _find_object(text: str) -> Any:
    """The first JSON object in a reply. Raises `Rejected` if there is none."""
    for candidate in _candidates(text):
        try:
            node = json.JSONDecoder().raw_decode(candidate.strip())[0]
        except (ValueError, RecursionError):  # A number with too many digits is a ValueError, too.
            continue
        if isinstance(node, dict):
            return whole_json(node)
    raise Rejected("Your reply holds no complete JSON object. Reply with the JSON object alone.")


def _candidates(text: str) -> Iterator[str]:
    """All of a reply, then the content of its first fence, then its text from the first opening
    brace.
    """
    yield text
    without_thoughts = _THOUGHT.sub("", text)
    fence = _FENCE.search(without_thoughts)
    if fence:
        yield fence[1]
    start = _OBJECT_START.search(without_thoughts)
    if start:
        yield without_thoughts[start.start() :]


def _error_message(error: ValidationError) -> str:
    """Pydantic's findings, without the input that they quote."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [_error_line(detail["loc"], detail["msg"]) for detail in details[:_MAX_ERRORS]]
    return "\n".join(["Your JSON does not fit the schema.", *lines])


def _error_line(location: tuple[int | str, ...], message: str) -> str:
    path = ".".join(map(str, location))
    return f"{path or 'The object'}: {message}."
