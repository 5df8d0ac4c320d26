"""What a tool is: a name, a description, typed arguments, and a function of a record.

A model calls it with JSON text. Whatever is wrong with that text, or with the call, is returned as
a message.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from archqa.core.value import FrozenModel
from archqa.fhir import FhirError, Record
from archqa.fhir.record import Resource
from archqa.llm.model import ToolSpec
from archqa.safety.text import json_without_surrogates

Arguments = TypeVar("Arguments", bound=FrozenModel)

_MAX_ERRORS = 5
_SCHEMA_KEYWORDS = frozenset({"type", "description", "enum", "default"})
"""What the benchmark's schemas say of a property."""


class ToolResult(NamedTuple):
    """The result of a call.

    `resources` maps type to resources; `output` is the rest, such as an answer or an error.

    `fault` names the kind of error for counting, empty if there was none: `arguments`, `search`,
    `time`, …
    """

    resources: Mapping[str, list[Resource]] = {}
    output: Mapping[str, Any] = {}
    fault: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """Both together, as the benchmark's tools return them."""
        return {**self.resources, **self.output}


def tool_error(fault: str, message: str) -> ToolResult:
    """An error as a tool returns it."""
    return ToolResult(output={"error": message}, fault=fault)


class Tool(Generic[Arguments]):
    """An action that a model may call. Subclasses declare its arguments and implement `run`."""

    name: ClassVar[str]
    description: ClassVar[str]
    takes: type[Arguments]

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is offered it."""
        schema = self.takes.model_json_schema()
        properties = {}
        for name, node in schema.get("properties", {}).items():
            properties[name] = {
                keyword: value
                for keyword, value in node.items()
                if keyword in _SCHEMA_KEYWORDS
            }
        parameters = {
            "type": "object",
            "properties": properties,
            "required": schema.get("required", []),
        }
        return ToolSpec(
            name=self.name, description=self.description, parameters=parameters
        )

    def run(self, record: Record, args: Arguments) -> ToolResult:
        """Run the tool. `call` turns a `FhirError` of the record into a message."""
        raise NotImplementedError

    def call(self, record: Record, arguments: str) -> ToolResult:
        """Run the tool with `arguments` (JSON text); a mistake of the model is an error result,
        never an exception.
        """
        try:
            args = self.takes.model_validate(_parse_object(arguments))
        except ValidationError as error:
            details = error.errors(
                include_url=False, include_input=False, include_context=False
            )
            messages = []
            for detail in details[:_MAX_ERRORS]:
                path = ".".join(map(str, detail["loc"])) or "arguments"
                messages.append(f"{path}: {detail['msg']}")
            return tool_error("arguments", f"{self.name}: {'; '.join(messages)}.")
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


def _parse_object(text: str) -> dict[str, Any]:
    """The arguments that a model wrote. Raises `ValueError` with a message for it."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise ValueError("the arguments are not valid JSON.") from None
    if not isinstance(arguments, dict):
        raise ValueError("the arguments must be a JSON object.")
    whole: dict[str, Any] = json_without_surrogates(arguments)
    return whole
