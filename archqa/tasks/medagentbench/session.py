"""One task's access to the record: its gateway, its mode of writing, and the checks of every write.

read-only  refuses every write
record     checks only that the payload is JSON and stores nothing, as the benchmark does
validate   checks everything, stores nothing
apply      stores: in memory above a store, really on a server
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from archqa.agents.agent import ConfirmWrite
from archqa.errors import ArchqaError
from archqa.fhir import AuditLog, Overlay, Store, WriteMode, Writer
from archqa.fhir.record import Record, Resource
from archqa.fhir.write.writer import WriteResult
from archqa.safety.text import json_without_surrogates
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

_WRITABLE_TYPES = ("Observation", "MedicationRequest", "ServiceRequest")
_MAX_EXISTING = 200
_LOOKUP_FAILURES = (ArchqaError, ValueError, TypeError, KeyError, AttributeError, AssertionError)
"""Errors that a server causes which answers with anything but FHIR."""


class ClinicalSession:
    """One task's access to a record.

    Use it in a `with`: writes above a store are dropped at its end.
    """

    def __init__(
        self,
        record: Record,
        task_text: TaskText,
        *,
        who: str = "",
        mode: WriteMode = WriteMode.RECORD,
        audit: AuditLog | None = None,
        confirm: ConfirmWrite | None = None,
    ) -> None:
        if mode is WriteMode.APPLY and audit is None:
            mode = WriteMode.VALIDATE  # Nothing is stored without an audit log, as in a dry run.
        self._overlay: Overlay | None = None
        if mode is WriteMode.APPLY and isinstance(record, Store):
            self._overlay = Overlay.over(record)
        self.record: Record = self._overlay or record
        self.gateway: FhirGateway = open_gateway(self.record)
        self.task_text = task_text
        self.mode = mode
        self.attempts: list[dict[str, Any]] = []
        self._who = who
        self._confirm = confirm
        self._writer = Writer(self._write_target(), mode, audit)

    @property
    def payload_format(self) -> PayloadFormat:
        """The format that suits the mode: the benchmark's if nothing is stored or checked."""
        if self.mode is WriteMode.RECORD:
            return PayloadFormat.BENCHMARK
        return PayloadFormat.R4

    def post(self, url: str, body: str, evidence: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Write, or only check, depending on the mode.

        Returns the reasons for a refusal, none if it was accepted.

        Every attempt is in the audit log.
        """
        reasons = self._refusal_reasons(url, _parse_object(body))
        result = self._write(url, body, evidence, reasons)
        if result.accepted:
            return ()
        errors = [finding for finding in result.findings if finding.level == "error"]
        return tuple(f"{error.path} {error.message}".strip() for error in errors)

    def log_refusal(
        self, url: str, body: str, reasons: tuple[str, ...], evidence: tuple[str, ...] = ()
    ) -> None:
        """Record in the audit log that a write was refused, and why."""
        self._write(url, body, evidence, reasons)

    def write_context(self, payload: Mapping[str, Any]) -> WriteContext:
        """What the record says about a payload's patient."""
        return WriteContext(
            {},
            existing_resources=self.existing_resources(payload),
            patient_exists=self.has_patient(subject_patient_id(payload)),
        )

    def existing_resources(self, payload: Mapping[str, Any]) -> tuple[Resource, ...]:
        """Resources of the payload's type and patient in the record; none if the search fails."""
        resource_type = str(payload.get("resourceType"))
        patient = subject_patient_id(payload)
        if resource_type not in _WRITABLE_TYPES or not patient:
            return ()
        query = {"patient": patient, "_count": str(_MAX_EXISTING)}
        if resource_type == "Observation":
            query["date"] = str(payload.get("effectiveDateTime"))
        try:
            return tuple(self.record.search(resource_type, query).resources)
        except _LOOKUP_FAILURES:
            return ()

    def has_patient(self, patient: str) -> bool | None:
        """Whether the record has the patient, by id or by identifier; None if the search fails."""
        try:
            if self.record.get("Patient", patient) is not None:
                return True
            return bool(self.record.search("Patient", {"identifier": patient}).entries)
        except _LOOKUP_FAILURES:
            return None

    def __enter__(self) -> "ClinicalSession":
        return self

    def __exit__(self, *_: object) -> None:
        if self._overlay is not None:
            self._overlay.close()

    def _write_target(self) -> Record:
        if self.mode is WriteMode.APPLY:
            return self.record
        return cast("Record", _PatientCheck(self))

    def _write(
        self, url: str, body: str, evidence: tuple[str, ...], reasons: tuple[str, ...]
    ) -> WriteResult:
        result = self._writer.post(
            _resource_type(url), body, url=url, who=self._who, evidence=evidence, against=reasons
        )
        attempt = {
            "url": url,
            "status": result.status,
            "location": result.location or "",
            "findings": [finding.model_dump() for finding in result.findings],
            "evidence": evidence,
        }
        self.attempts.append(attempt)
        return result

    def _refusal_reasons(self, url: str, payload: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Reasons against a write.

        The benchmark's controller has none, so mode `record` only asks a person.
        """
        if self.mode is WriteMode.READ_ONLY or payload is None:
            return ()
        reasons: list[str] = []
        if self.mode in {WriteMode.VALIDATE, WriteMode.APPLY}:
            if relative_url(url) != _resource_type(url):
                reasons.append(f"Post to {FHIR_BASE_URL} and the type.")
            reasons += objections(payload, self.task_text, self.write_context(payload))
        if not reasons and not self._is_confirmed(url, payload):
            reasons.append("A person has declined this write.")
        return tuple(reasons)

    def _is_confirmed(self, url: str, payload: Mapping[str, Any]) -> bool:
        """Whether a person allows the write; true if nobody is to be asked."""
        return self._confirm is None or self._confirm(url, payload)


class _PatientCheck:
    """A stand-in for the record that tells the writer whether a patient exists, without failing."""

    def __init__(self, session: ClinicalSession) -> None:
        self._session = session

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """An empty resource if the patient exists or the record cannot tell, else None."""
        return None if self._session.has_patient(resource_id) is False else {}


def _resource_type(url: str) -> str:
    return url.partition("?")[0].rstrip("/").rpartition("/")[2]


def _parse_object(body: str) -> Mapping[str, Any] | None:
    try:
        payload = json_without_surrogates(json.loads(body))
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None
