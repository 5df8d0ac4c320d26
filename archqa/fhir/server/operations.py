"""The operations that the server has, by name: where, by which methods, and what answers them.

A new operation is a row of `OPERATIONS`; its handler belongs into a module of its own, which imports
`FhirService` for its types only. Source: hl7.org/fhir/R4/operations.html.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.server.operation_handlers import answer_everything
from archqa.fhir.server.response import FhirResponse, Headers
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params

if TYPE_CHECKING:
    from archqa.fhir.server.service import FhirService

ANY_TYPE = R4_RESOURCE_TYPES
"""For operations on every type of resource."""


class Level(StrEnum):
    """Where an operation is called: `[base]/$x`, `[base]/Type/$x`, `[base]/Type/id/$x`."""

    SYSTEM = "system"
    TYPE = "type"
    INSTANCE = "instance"


class OperationCall(NamedTuple):
    """A call of an operation; `resource_type` and `resource_id` are empty where none is named."""

    name: str
    level: Level
    method: str
    resource_type: str
    resource_id: str
    params: Params
    body: str
    headers: Headers


Handler = Callable[["FhirService", OperationCall], FhirResponse]


class Operation(NamedTuple):
    """An operation: the types that have it at each level, its methods and its handler."""

    name: str
    levels: Mapping[Level, frozenset[str]]
    methods: tuple[str, ...]
    handler: Handler

    @property
    def urls(self) -> str:
        """The URLs that call it, for a message: `Patient/[id]/$everything`."""
        urls = []
        for level, types in self.levels.items():
            for resource_type in ("[type]",) if types == ANY_TYPE else sorted(types):
                place = {Level.SYSTEM: "", Level.TYPE: f"{resource_type}/"}
                urls.append(f"{place.get(level, f'{resource_type}/[id]/')}${self.name}")
        return ", ".join(urls)


_READ_OR_POST = ("GET", "HEAD", "POST")

OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            "everything",
            {Level.INSTANCE: frozenset({"Patient", "Encounter"})},
            _READ_OR_POST,
            answer_everything,
        ),
    )
}
"""The operations of the server by name, without the dollar sign."""


def is_operation(path: str) -> bool:
    """Whether a path calls an operation, be it one that the server has or not."""
    return path.rpartition("/")[2].startswith("$")


def find_operation(path: str) -> tuple[Operation, Level]:
    """Return the operation that a path calls, and its level.

    Raises `FhirError` (404, not-supported) for one that the server does not have, there or at all.
    R4's page of operations names no status; http.html has 404 for what is no endpoint.
    """
    place, _, dollar_name = path.rpartition("/")
    operation = OPERATIONS.get(dollar_name[1:])
    if operation is None:
        raise FhirError(_unknown_operation(dollar_name[1:]), 404, "not-supported")
    level, resource_type = _level_of(place)
    if resource_type not in operation.levels.get(level, ()):
        problem = f"The operation ${operation.name} is not supported here."
        raise FhirError(f"{problem} Supported: {operation.urls}.", 404, "not-supported")
    return operation, level


def call_of(
    method: str, path: str, params: Params, body: str, headers: Headers
) -> tuple[Operation, OperationCall]:
    """Return the operation that a request calls, and the call. Raises `FhirError` (404)."""
    operation, level = find_operation(path)
    resource_type, resource_id, *_ = *path.split("/")[:-1], "", ""
    call = OperationCall(
        operation.name, level, method, resource_type, resource_id, params, body, headers
    )
    return operation, call


def _level_of(place: str) -> tuple[Level, str]:
    """Return the level of what stands before the operation, and its type (empty: none is named)."""
    if not place:
        return Level.SYSTEM, ""
    resource_type, _, resource_id = place.partition("/")
    if "/" in resource_id:
        return Level.INSTANCE, ""
    return (Level.INSTANCE if resource_id else Level.TYPE), resource_type


def _unknown_operation(name: str) -> str:
    shown = quotable(name)
    dollar = "$" if shown == name else ""
    hint = did_you_mean(name, frozenset(OPERATIONS))
    supported = ", ".join(f"${known}" for known in sorted(OPERATIONS))
    return f"The operation {dollar}{shown} is not supported.{hint} Supported: {supported}."
