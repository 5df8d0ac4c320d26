"""Where one task is worked off: the door to the record, what becomes of writes, and what is known of the patient.

read-only  refuses every write          record    the benchmark's way: looks at the JSON, stores nothing
validate   looks at all, stores nothing apply     stores: above a store, in memory; on a server, really
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from archqa.errors import ArchqaError
from archqa.fhir import AuditLog, Overlay, Store, WriteMode, Writer
from archqa.fhir.record import Record, Resource
from archqa.fhir.write.writer import WriteResult
from archqa.tasks.medagentbench.gateway import (
    FHIR_BASE_URL,
    FhirGateway,
    open_gateway,
    relative_url,
)
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.write_checks import (
    TaskText,
    WriteContext,
    objections,
    subject_patient_id,
)

Confirm = Callable[[str, Mapping[str, Any]], bool]
"""Asks a person whether a resource may be posted to a URL."""

_TYPES = ("Observation", "MedicationRequest", "ServiceRequest")
_MOST_STANDING = 200
_UNTOLD = (ArchqaError, ValueError, TypeError, KeyError, AttributeError, AssertionError)
"""What a server may come to that answers with anything but FHIR."""


class ClinicalSession:
    """One task's access to a record. Use it in a `with`: writes above a store are forgotten at its end."""

    def __init__(
        self,
        record: Record,
        ask: TaskText,
        *,
        who: str = "",
        mode: WriteMode = WriteMode.RECORD,
        audit: AuditLog | None = None,
        confirm: Confirm | None = None,
    ) -> None:
        if mode is WriteMode.APPLY and audit is None:
            mode = (
                WriteMode.VALIDATE
            )  # Nothing is stored of which nobody could tell later: not in a rehearsal either.
        overlaid = mode is WriteMode.APPLY and isinstance(record, Store)
        self._overlay = Overlay.over(record) if overlaid and isinstance(record, Store) else None
        self.record: Record = self._overlay or record
        self.gateway: FhirGateway = open_gateway(self.record)
        self.ask = ask
        self.mode = mode
        self._who = who
        self._confirm = confirm
        self.attempts: list[dict[str, Any]] = []
        self._writer = Writer(
            cast("Record", _Patients(self)) if mode is not WriteMode.APPLY else self.record,
            mode,
            audit,
        )

    @property
    def shape(self) -> PayloadFormat:
        """The shape that suits the mode: the benchmark's where nothing is stored or checked."""
        return PayloadFormat.BENCHMARK if self.mode is WriteMode.RECORD else PayloadFormat.R4

    def post(self, url: str, body: str, evidence: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Write, or only look, as the mode has it; the reasons why not. Every attempt is in the audit log."""
        kind = _kind(url)
        payload = _object(body)
        written = self._posted(url, body, evidence, self._against(url, kind, payload))
        errors = [each for each in written.findings if each.level == "error"]
        return (
            ()
            if written.accepted
            else tuple(f"{each.path} {each.message}".strip() for each in errors)
        )

    def log_refusal(
        self, url: str, body: str, reasons: tuple[str, ...], evidence: tuple[str, ...] = ()
    ) -> None:
        """Keep in the audit log that a write was refused, and why."""
        self._posted(url, body, evidence, reasons)

    def known(self, payload: Mapping[str, Any]) -> WriteContext:
        """What the record says about a payload's patient."""
        return WriteContext(
            {},
            standing=self.standing(payload),
            patient_exists=self.has_patient(subject_patient_id(payload)),
        )

    def standing(self, payload: Mapping[str, Any]) -> tuple[Resource, ...]:
        """What the record holds of the same type for the same patient; nothing where it cannot be told."""
        kind, patient = str(payload.get("resourceType")), subject_patient_id(payload)
        if kind not in _TYPES or not patient:
            return ()
        try:
            moment = (
                {"date": str(payload.get("effectiveDateTime"))} if kind == "Observation" else {}
            )
            query = {"patient": patient, "_count": str(_MOST_STANDING), **moment}
            return tuple(self.record.search(kind, query).resources)
        except _UNTOLD:
            return ()

    def has_patient(self, patient: str) -> bool | None:
        """Whether the record has the patient, by id or by identifier; None if that cannot be told."""
        try:
            if self.record.get("Patient", patient) is not None:
                return True
            return bool(self.record.search("Patient", {"identifier": patient}).entries)
        except _UNTOLD:
            return None

    def preview(self, url: str, payload: Mapping[str, Any]) -> bool:
        """Whether a person allows it, where one is to be asked."""
        return self._confirm is None or self._confirm(url, payload)

    def __enter__(self) -> "ClinicalSession":
        return self

    def __exit__(self, *_: object) -> None:
        if self._overlay is not None:
            self._overlay.close()

    def _posted(
        self, url: str, body: str, evidence: tuple[str, ...], against: tuple[str, ...]
    ) -> WriteResult:
        written = self._writer.post(
            _kind(url), body, url=url, who=self._who, evidence=evidence, against=against
        )
        found = [each.model_dump() for each in written.findings]
        location = written.location or ""
        attempt = {
            "url": url,
            "status": written.status,
            "location": location,
            "findings": found,
            "evidence": evidence,
        }
        self.attempts.append(attempt)
        return written

    def _against(self, url: str, kind: str, payload: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Reasons against a write. The benchmark's own controller has none, so that mode `record` asks only people."""
        if self.mode is WriteMode.READ_ONLY or payload is None:
            return ()
        found: list[str] = []
        if self.mode in {WriteMode.VALIDATE, WriteMode.APPLY}:
            if relative_url(url) != kind:
                found.append(f"Post to {FHIR_BASE_URL} and the type.")
            found += objections(payload, self.ask, self.known(payload))
        if not found and not self.preview(url, payload):
            found.append("A person has declined this write.")
        return tuple(found)


class _Patients:
    """The record as the writer's checks need it: whether a patient exists, and no failure if that cannot be told."""

    def __init__(self, place: ClinicalSession) -> None:
        self._place = place

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """An empty patient if there is one, or may be one."""
        return None if self._place.has_patient(resource_id) is False else {}


def _kind(url: str) -> str:
    return url.partition("?")[0].rstrip("/").rpartition("/")[2]


def _object(body: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
