"""Resources dated after the time of a question, which was stated: they are left out and counted.

The same rule as for the rows of a query (`archqa.query.execution.time_windows`).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from archqa.agents.tools.tool import ToolResult, tool_error
from archqa.fhir import Record, Resource
from archqa.query.execution.elements import text_at
from archqa.query.execution.rows import parse_datetime, without_timezone
from archqa.query.execution.time_windows import left_out_text
from archqa.tasks.fhir_agentbench.one_patient_tools import (
    GetReferredResources,
    GetResourcesOfThisPatient,
)
from archqa.tasks.fhir_agentbench.retrieval_tools import OfPatient, OfResource

_TIME_PATHS = (
    "effectiveDateTime",
    "effectiveInstant",
    "effectivePeriod.start",
    "performedDateTime",
    "performedPeriod.start",
    "occurrenceDateTime",
    "occurrencePeriod.start",
    "dispenseRequest.validityPeriod.start",
    "authoredOn",
    "whenHandedOver",
    "whenPrepared",
    "period.start",
    "onsetDateTime",
    "onsetPeriod.start",
    "recordedDate",
    "started",
    "collection.collectedDateTime",
    "startDate",
    "date",
    "created",
    "issued",
)
"""Where resources of R4 have the time of what they tell of; the first that a resource has counts."""


def resource_time(resource: Resource) -> datetime | None:
    """The local time of what a resource tells of; None if it has none."""
    for path in _TIME_PATHS:
        text = text_at(resource, path)
        if text:
            return without_timezone(parse_datetime(text))
    return None


def is_later(resource: Resource, end: datetime | None) -> bool:
    """Whether a resource is dated at or after an end; never without an end or a time."""
    time = resource_time(resource)
    return end is not None and time is not None and time >= end


class LaterResources:
    """What was left out of one question's resources, since it is dated at or after `end`."""

    def __init__(self, end: datetime | None) -> None:
        self._end = end
        self._references: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence with the number of resources that were left out; none if none was."""
        count = len(self._references)
        if not count:
            return ()
        noun = "resource" if count == 1 else "resources"
        return (left_out_text(count, noun),)

    def without(self, result: ToolResult) -> ToolResult:
        """The result of a tool without later resources, and how many of them it had."""
        kept = {name: self._earlier(found) for name, found in result.resources.items()}
        count = sum(map(len, result.resources.values())) - sum(map(len, kept.values()))
        if not count:
            return result
        remark = {"remark": f"Left out, since dated after the current time: {count}."}
        return ToolResult(kept, {**result.output, **remark}, result.fault)

    def _earlier(self, resources: Iterable[Resource]) -> list[Resource]:
        earlier = []
        for resource in resources:
            if is_later(resource, self._end):
                self._references[_reference(resource)] = None
            else:
                earlier.append(resource)
        return earlier


class GetEarlierResourcesOfThisPatient(GetResourcesOfThisPatient):
    """The patient's resources of a type, without later ones."""

    def __init__(self, patient: str, later: LaterResources) -> None:
        super().__init__(patient)
        self._later = later

    def run(self, record: Record, args: OfPatient) -> ToolResult:
        """Search as for any patient, and say how many resources are left out."""
        return self._later.without(super().run(record, args))


class GetEarlierReferredResources(GetReferredResources):
    """The resource with an id, unless it is a later one."""

    def __init__(self, patient: str, later: LaterResources) -> None:
        super().__init__(patient)
        self._later = later

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Read it; what is dated after the time of the question is an error."""
        found = super().run(record, args)
        kept = self._later.without(found)
        if kept is found:
            return found
        return tool_error("search", "That resource is dated after the current time: left out.")


def _reference(resource: Any) -> str:
    return f"{resource.get('resourceType')}/{resource.get('id')}"
