"""The actions of an agent with typed tools, each a turn of the benchmark's conversation.

Searches take names, codes and hours instead of URLs; writes are intents that are checked against
the instruction and the resources read before they are posted.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from archqa.errors import ArchqaError
from archqa.fhir.record import Resource
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.urls import build_search_url
from archqa.tasks.medagentbench.clock import format_datetime, parse_instant
from archqa.tasks.medagentbench.gateway import FHIR_BASE_URL
from archqa.tasks.medagentbench.protocol import POST_ACCEPTED, TaskController, parse_resources
from archqa.tasks.medagentbench.session import ClinicalSession
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.write_checks import (
    WriteContext,
    missing_reads,
    objections,
)
from archqa.tasks.medagentbench.write_intents import WriteIntent

_MAX_PAGES = 3
"""Pages read of one search: an agent has eight turns."""

_ACCEPTED = POST_ACCEPTED.partition(" and ")[0]
_INVALID_STATUSES = {"entered-in-error", "cancelled"}


class ActionFailed(ArchqaError):
    """The action was refused or failed; the message tells the agent why."""


class Written(NamedTuple):
    """A write that was accepted; `reference` is empty where nothing is stored."""

    payload: dict[str, Any]
    reference: str = ""


class ToolImplementations:
    """The actions of an agent in one task.

    `cited` are the resources that the answer rests on, `created` those that were stored by
    `Type/id`, `remarks` tell of refused writes.
    """

    def __init__(
        self,
        controller: TaskController,
        session: ClinicalSession,
        payload_format: PayloadFormat | None = None,
    ) -> None:
        self.controller = controller
        self.session = session
        self.payload_format = payload_format or session.payload_format
        self.cited: list[str] = []
        self.created: dict[str, Resource] = {}
        self.explanation = ""
        self.remarks: list[str] = []

    @property
    def known_resources(self) -> dict[str, Resource]:
        """The resources that were read or stored in this task, by `Type/id`."""
        return {**self.controller.resources_read, **self.created}

    def search(self, resource_type: str, params: Iterable[tuple[str, str]]) -> list[Resource]:
        """The matches on the first pages of a search. Raises `ActionFailed`."""
        url: str | None = f"{FHIR_BASE_URL}{build_search_url(resource_type, params)}"
        resources: list[Resource] = []
        for _ in range(_MAX_PAGES):
            if url is None:
                break
            resources += self._read_page(url)
            url = self._next_page_url()
        return [resource for resource in resources if resource.get("resourceType") == resource_type]

    def search_patients(self, **criteria: str) -> list[Resource]:
        """Patients by identifier, given, family, birthdate and so on. Raises `ActionFailed`."""
        params = []
        for name, value in criteria.items():
            if value:
                params.append((name.replace("_", "-"), value))
        return self.search("Patient", params)

    def search_measurements(
        self, patient: str, code: str, since: datetime | None = None
    ) -> list[Resource]:
        """Valid measurements of a code, the latest first, optionally only since a time.

        Raises `ActionFailed`.
        """
        params = [("patient", patient), ("code", code)]
        if since is not None:
            params.append(("date", f"ge{format_datetime(since)}"))
        params += [("_sort", "-date"), ("_count", "200")]
        observations = self.search("Observation", params)
        measurements = [observation for observation in observations if _is_valid(observation)]
        if since is None:
            return measurements
        return [measurement for measurement in measurements if _time_of(measurement) >= since]

    def write(self, intent: WriteIntent, evidence: Sequence[str] = ()) -> Written:
        """Check an intent and post it. Raises `ActionFailed` with every reason against it."""
        payload = intent.payload(self.payload_format)
        url = f"{FHIR_BASE_URL}{intent.resource_type}"
        body = json.dumps(payload)
        references = tuple(evidence)
        reasons = self._refusal_reasons(payload, references)
        if reasons:
            self.session.log_refusal(url, body, tuple(reasons), references)
            raise self._refusal(intent, " ".join(reasons))
        self.controller.evidence = references
        answer = self._take_turn(f"POST {url}\n{body}")
        if not answer.startswith(_ACCEPTED):
            raise self._refusal(intent, answer)
        return Written(payload, self._store_created(payload))

    def preview(
        self, intent: WriteIntent, evidence: Sequence[str] = ()
    ) -> tuple[dict[str, Any], list[str]]:
        """The payload of an intent and every reason against it; nothing is written."""
        payload = intent.payload(self.payload_format)
        return payload, self._refusal_reasons(payload, tuple(evidence))

    def finish(
        self, answers: Sequence[Any], explanation: str = "", cited: Sequence[str] = ()
    ) -> None:
        """End the conversation with these answers.

        Explanation and citations are stored apart from them.
        """
        self.explanation = explanation
        self.cited = list(dict.fromkeys(cited))
        self._take_turn(f"FINISH({json.dumps(list(answers), ensure_ascii=False)})")

    def _store_created(self, payload: dict[str, Any]) -> str:
        """The reference of the resource that the last write created; empty if none was stored."""
        location = parse_reference(str(self.session.attempts[-1]["location"]))
        if location is None or not location.type:
            return ""
        reference = f"{location.type}/{location.id}"
        self.created[reference] = {**payload, "id": location.id}
        return reference

    def _refusal(self, intent: WriteIntent, reason: str) -> ActionFailed:
        self.remarks.append(f"{intent.resource_type} refused")
        return ActionFailed(reason)

    def _refusal_reasons(self, payload: dict[str, Any], evidence: tuple[str, ...]) -> list[str]:
        context = self.session.write_context(payload)
        context = WriteContext(
            self.known_resources,
            tuple(self.controller.requested_urls),
            tuple(self.controller.accepted_writes),
            context.existing_resources,
            context.patient_exists,
        )
        task_text = self.session.task_text
        return [
            *objections(payload, task_text, context, evidence),
            *missing_reads(payload, task_text, context, evidence),
        ]

    def _read_page(self, url: str) -> list[Resource]:
        answer = self._take_turn(f"GET {url}")
        if not self.controller.last_page:
            raise ActionFailed(answer)
        return parse_resources(self.controller.last_page)

    def _next_page_url(self) -> str | None:
        """The next page of the last search.

        None if only a write and FINISH still fit in the turns left.
        """
        if self.controller.rounds_left <= 2:
            return None
        return _next_link(self.controller.last_page)

    def _take_turn(self, text: str) -> str:
        if not self.controller.running:
            raise ActionFailed("The task has ended; there are no turns left.")
        if self.controller.rounds_left == 1 and not text.startswith("FINISH"):
            raise ActionFailed("Only one turn is left: finish.")
        return self.controller.handle_turn(text) or ""


def _time_of(measurement: Resource) -> datetime:
    time = parse_instant(measurement["effectiveDateTime"])
    assert time is not None  # `_is_valid` has checked it.
    return time


def _is_valid(resource: Resource) -> bool:
    if resource.get("status") in _INVALID_STATUSES:
        return False
    if parse_instant(resource.get("effectiveDateTime", "")) is None:
        return False
    quantity = resource.get("valueQuantity")
    value = quantity.get("value") if isinstance(quantity, dict) else None
    return isinstance(value, int | float)


def _next_link(page: str) -> str | None:
    """The link to the next page of a searchset, if it leads to the same server."""
    try:
        bundle = json.loads(page)
    except (ValueError, RecursionError):
        return None
    links = bundle.get("link") if isinstance(bundle, dict) else None
    if not isinstance(links, list):
        return None
    for link in links:
        if isinstance(link, dict) and link.get("relation") == "next":
            url = str(link.get("url"))
            if url.startswith(FHIR_BASE_URL.rstrip("/")):
                return url
    return None
