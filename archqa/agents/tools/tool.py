"""The contract of the room: a `Tool` has a name, a description and typed arguments, and runs on a record.

A model calls it with JSON text; whatever is wrong with that text, or with what the tool does, comes back in words.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from archqa.core.value import FrozenModel
from archqa.fhir import FhirError, Record
from archqa.fhir.record import Resource
from archqa.llm.model import ToolSpec

Arguments = TypeVar("Arguments", bound=FrozenModel)


class ToolResult(NamedTuple):
    """What a tool gives back. `resources` maps type to resources; `said` is the rest, such as an answer or an error.

    `fault` names the kind of error for counting, empty if there was none: `arguments`, `search`, `time`, …
    """

    resources: Mapping[str, list[Resource]] = {}
    said: Mapping[str, Any] = {}
    fault: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """Both together, as the benchmark's tools return them."""
        return {**self.resources, **self.said}


def tool_error(fault: str, words: str) -> ToolResult:
    """An error in words, as a tool returns it."""
    return ToolResult(said={"error": words}, fault=fault)


class Tool(Generic[Arguments]):
    """One thing a model may do. Subclasses say what it takes and do it in `run`."""

    name: ClassVar[str]
    description: ClassVar[str]
    takes: type[Arguments]

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model."""
        schema = self.takes.model_json_schema()
        properties = {name: _plain(node) for name, node in schema.get("properties", {}).items()}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": schema.get("required", []),
        }
        return ToolSpec(name=self.name, description=self.description, parameters=parameters)

    def run(self, record: Record, args: Arguments) -> ToolResult:
        """Do it. `FhirError` of the record is put into words by `call`."""
        raise NotImplementedError

    def call(self, record: Record, arguments: str) -> ToolResult:
        """Do what a model asked for with `arguments` (JSON text); never raises for what the model did wrong."""
        try:
            args = self.takes.model_validate(_object(arguments))
        except ValidationError as error:
            return tool_error("arguments", f"{self.name}: {_in_words(error)}")
        except ValueError as error:
            return tool_error("arguments", f"{self.name}: {error}")
        try:
            return self.run(record, args)
        except FhirError as error:
            return tool_error("search", str(error))


def tools_by_name(tools: Iterable[Tool[Any]]) -> dict[str, Tool[Any]]:
    """Tools by name."""
    return {tool.name: tool for tool in tools}


def group_by_type(resources: Iterable[Resource]) -> dict[str, list[Resource]]:
    """Resources grouped by their type, in the order of their first occurrence."""
    groups: dict[str, list[Resource]] = {}
    for resource in resources:
        groups.setdefault(str(resource.get("resourceType", "")), []).append(resource)
    return groups


def _object(text: str) -> dict[str, Any]:
    """The arguments a model wrote. Raises `ValueError` in words."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise ValueError("the arguments are not valid JSON.") from None
    if not isinstance(found, dict):
        raise ValueError("the arguments must be a JSON object.")
    return found


def _in_words(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return (
        "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found[:5]
        )
        + "."
    )


def _plain(node: dict[str, Any]) -> dict[str, Any]:
    """A property as the benchmark's schemas have it."""
    return {
        word: value
        for word, value in node.items()
        if word in {"type", "description", "enum", "default"}
    }
