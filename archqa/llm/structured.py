"""From a reply's text to a typed output, and from a type to the JSON Schema a server can be held to.

The schema follows the strict subset of OpenAI's "Structured outputs": every property required, no other allowed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

Output = TypeVar("Output", bound=BaseModel)

SentenceId = Annotated[str, Field(json_schema_extra={"choices": "sentence"})]
"""An id out of the note at hand; the schema lists the ids there are, so that none can be invented."""

AllowedValues = Mapping[str, Sequence[str]]
"""What may stand where a field is marked with `choices`, by the mark's name; differs from task to task."""

HIDDEN_FROM_MODEL = {"hidden": True}
"""Marks a field that a model is not asked for: other minds fill it."""

_DROPPED = frozenset({"title", "default", "choices"})
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)
_OBJECT = re.compile(r"\{\s*[\"}]")


class Rejected(Exception):
    """An output that will not do. The message is said to the model: what is wrong, and what is allowed."""


def strict_schema(output: type[BaseModel], choices: AllowedValues | None = None) -> dict[str, Any]:
    """The JSON Schema of `output`, strict, with the choices this task leaves where a field is marked for them."""
    schema = _strict(_schema(output), choices or {})
    assert isinstance(schema, dict)
    return schema


def parse_output(text: str, output: type[Output]) -> Output:
    """The output in `text`, with or without fences, thoughts or prose around it. Raises `Rejected`."""
    try:
        return output.model_validate(_object_in(text))
    except ValidationError as error:
        raise Rejected(_in_words(error)) from None


@cache
def _schema(output: type[BaseModel]) -> dict[str, Any]:
    """Pydantic's own schema, generated once a type: it takes a fifth of the time of a call."""
    return output.model_json_schema()


def _strict(node: Any, choices: AllowedValues) -> Any:
    if isinstance(node, list):
        return [_strict(each, choices) for each in node]
    if not isinstance(node, dict):
        return node
    if choices.get(node.get("choices", "")):
        return {"type": "string", "enum": list(choices[node["choices"]])}
    strict = {
        word: _strict_child(word, value, choices)
        for word, value in node.items()
        if word not in _DROPPED
    }
    if isinstance(strict.get("properties"), dict):
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


def _strict_child(word: str, value: Any, choices: AllowedValues) -> Any:
    """Below `properties` and `$defs` the keys are names, not words of JSON Schema: only hidden ones are dropped."""
    if word in {"properties", "$defs"}:
        return {
            name: _strict(child, choices)
            for name, child in value.items()
            if not child.get("hidden")
        }
    return _strict(value, choices)


def _object_in(text: str) -> Any:
    """The first JSON object of a reply: all of it, what fences hold, or what begins like one amid prose."""
    bare = _THOUGHT.sub("", text)
    fenced, begun = _FENCE.search(bare), _OBJECT.search(bare)
    for candidate in [
        text,
        fenced.group(1) if fenced else "",
        bare[begun.start() :] if begun else "",
    ]:
        try:
            found = json.JSONDecoder().raw_decode(candidate.strip())[0]
        except (ValueError, RecursionError):  # A number of too many digits is a ValueError, too.
            continue
        if isinstance(found, dict):
            return found
    raise Rejected("Your reply holds no complete JSON object. Reply with the JSON object alone.")


def _in_words(error: ValidationError) -> str:
    """Pydantic's findings, without the input they quote."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [
        f"{'.'.join(str(step) for step in each['loc']) or 'The object'}: {each['msg']}."
        for each in found[:8]
    ]
    return "Your JSON does not fit the schema.\n" + "\n".join(lines)
