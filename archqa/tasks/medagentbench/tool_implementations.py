"""What an agent with typed tools does to a record, each act a turn of the benchmark's own conversation.

Searches take names, codes and hours instead of URLs; writes are held as intents, checked against what was asked and
what was read, and only then posted.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir.record import Resource
from archqa.fhir.values.urls import build_search_url
from archqa.tasks.medagentbench.clock import format_datetime, parse_instant
from archqa.tasks.medagentbench.gateway import FHIR_BASE_URL
from archqa.tasks.medagentbench.protocol import POST_ACCEPTED, TaskController, parse_resources
from archqa.tasks.medagentbench.session import ClinicalSession
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.write_checks import WriteContext, missing_reads, objections
from archqa.tasks.medagentbench.write_intents import WriteIntent

_PAGES = 3
"""Pages of one search that are read: an agent has eight turns."""


class ActionFailed(ArchqaError):
    """The act was refused or failed; the message says why, for whoever wanted it."""


class ToolImplementations:
    """One task in the hands of an agent. `cited` are the resources its answer rests on, `remarks` what was refused."""

    def __init__(
        self, talk: TaskController, place: ClinicalSession, shape: PayloadFormat | None = None
    ) -> None:
        self.talk = talk
        self.place = place
        self.shape = shape or place.shape
        self.cited: list[str] = []
        self.explanation = ""
        self.remarks: list[str] = []

    def search(self, kind: str, params: Iterable[tuple[str, str]]) -> list[Resource]:
        """The matches of a search, of its first pages. Raises `ActionFailed`."""
        url: str | None = f"{FHIR_BASE_URL}{build_search_url(kind, params)}"
        found: list[Resource] = []
        for _ in range(_PAGES):
            if url is None:
                break
            found += self._page(url)
            url = _next(self.talk.page) if self.talk.left > 2 else None
        return [each for each in found if each.get("resourceType") == kind]

    def patients(self, **wanted: str) -> list[Resource]:
        """Patients by identifier, given, family, birthdate and so on. Raises `ActionFailed`."""
        return self.search(
            "Patient", [(name.replace("_", "-"), value) for name, value in wanted.items() if value]
        )

    def patient(self, mrn: str) -> Resource | None:
        """The patient with this record number, or None. Raises `ActionFailed`."""
        return next(iter(self.patients(identifier=mrn)), None)

    def measured(self, patient: str, code: str, since: datetime | None = None) -> list[Resource]:
        """Valid measurements of a code, the latest first, perhaps only since a time. Raises `ActionFailed`."""
        dates = [("date", f"ge{format_datetime(since)}")] if since else []
        params = [
            ("patient", patient),
            ("code", code),
            *dates,
            ("_sort", "-date"),
            ("_count", "200"),
        ]
        found = [each for each in self.search("Observation", params) if _is_valid(each)]
        return [
            each
            for each in found
            if since is None or (parse_instant(each["effectiveDateTime"]) or since) >= since
        ]

    def write(self, intent: WriteIntent, evidence: Sequence[str] = ()) -> dict[str, Any]:
        """Check an intent and post it; the payload. Raises `ActionFailed` with every reason against it."""
        payload = intent.payload(self.shape)
        url, body, proofs = f"{FHIR_BASE_URL}{intent.kind}", json.dumps(payload), tuple(evidence)
        reasons = self._reasons(payload, proofs)
        if reasons:
            self.place.log_refusal(url, body, tuple(reasons), proofs)
            self.remarks.append(f"{intent.kind} refused")
            raise ActionFailed(" ".join(reasons))
        self.talk.evidence = proofs
        answer = self._say(f"POST {url}\n{body}")
        if not answer.startswith(POST_ACCEPTED[:21]):
            self.remarks.append(f"{intent.kind} refused")
            raise ActionFailed(answer)
        return payload

    def preview(
        self, intent: WriteIntent, evidence: Sequence[str] = ()
    ) -> tuple[dict[str, Any], list[str]]:
        """What would be posted, and every reason against it; nothing happens."""
        payload = intent.payload(self.shape)
        return payload, self._reasons(payload, tuple(evidence))

    def finish(
        self, answers: Sequence[Any], explanation: str = "", cited: Sequence[str] = ()
    ) -> None:
        """End the conversation with these answers; the explanation and what it cites are kept apart from them."""
        self.explanation = explanation
        self.cited = list(dict.fromkeys(cited))
        self._say(f"FINISH({json.dumps(list(answers), ensure_ascii=False)})")

    def _reasons(self, payload: dict[str, Any], evidence: tuple[str, ...]) -> list[str]:
        known = self.place.known(payload)
        known = WriteContext(
            self.talk.read,
            tuple(self.talk.asked),
            tuple(self.talk.accepted),
            known.standing,
            known.patient_exists,
        )
        ask = self.place.ask
        return [
            *objections(payload, ask, known, evidence),
            *missing_reads(payload, ask, known, evidence),
        ]

    def _page(self, url: str) -> list[Resource]:
        answer = self._say(f"GET {url}")
        if not self.talk.page:
            raise ActionFailed(answer)
        return parse_resources(self.talk.page)

    def _say(self, text: str) -> str:
        if not self.talk.running:
            raise ActionFailed("The task has ended; there are no turns left.")
        if self.talk.left == 1 and not text.startswith("FINISH"):
            raise ActionFailed("Only one turn is left: finish.")
        return self.talk.say(text) or ""


def resource_reference(resource: Resource) -> str:
    """`Type/id`, as evidence is named."""
    return f"{resource.get('resourceType')}/{resource.get('id')}"


def window_start(now: datetime, span: timedelta | None) -> datetime | None:
    """The start of a span that ends now."""
    return None if span is None else now - span


def latest_measurement(found: Sequence[Resource]) -> Resource | None:
    """The latest measurement; of several at one time the first."""
    best: Resource | None = None
    for each in found:
        at = parse_instant(each["effectiveDateTime"])
        known = parse_instant(best["effectiveDateTime"]) if best else None
        if at is not None and (known is None or at > known):
            best = each
    return best


def measured_value(resource: Resource) -> int | float:
    """The number measured."""
    value = resource["valueQuantity"]["value"]
    assert isinstance(value, int | float)
    return value


def _is_valid(resource: Resource) -> bool:
    quantity = resource.get("valueQuantity")
    value = quantity.get("value") if isinstance(quantity, dict) else None
    there = (
        isinstance(value, int | float)
        and parse_instant(resource.get("effectiveDateTime", "")) is not None
    )
    return there and resource.get("status") not in {"entered-in-error", "cancelled"}


def _next(page: str) -> str | None:
    """The link to the next page of a searchset, if it leads to the same server."""
    try:
        content = json.loads(page)
    except (ValueError, RecursionError):
        return None
    links = content.get("link") if isinstance(content, dict) else None
    for link in links if isinstance(links, list) else []:
        if (
            isinstance(link, dict)
            and link.get("relation") == "next"
            and str(link.get("url")).startswith(FHIR_BASE_URL[:-1])
        ):
            return str(link["url"])
    return None
