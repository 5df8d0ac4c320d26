"""Write to a record in one of four modes; every attempt is in the audit log.

read-only  refuse (the default)
record     check that the body is JSON, store nothing: what MedAgentBench's controller does
validate   check as in mode apply, store nothing
apply      check and store: in an overlay that can be reset, or on a server

Modes validate and apply also compare with a record on this machine (`RecordChecks`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from archqa.core.value import FrozenModel
from archqa.core.write_mode import WriteMode
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Record, WritableRecord
from archqa.fhir.values import dates
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.write.audit import AuditEntry, AuditLog
from archqa.fhir.write.record_checks import RecordChecks
from archqa.fhir.write.validation import Finding, validate_resource

__all__ = ["WriteMode", "WriteResult", "Writer"]

_SEVERITIES = {"error": "error", "warn": "warning", "info": "information"}

_NO_PROBLEM = (
    "No problem was found by the checks this server makes: the elements that it requires, value"
    " sets, the patient, shapes, units, doses, and open orders of the same."
)


class WriteResult(FrozenModel):
    """The result of one write.

    `status` is the HTTP status; `stored` the resource if one was stored, at `location`.
    """

    status: int
    findings: tuple[Finding, ...] = ()
    location: str | None = None
    stored: dict[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        """Whether the write was accepted in its mode."""
        return self.status < 400

    def outcome(self) -> dict[str, Any]:
        """Return the findings as an OperationOutcome, which says so if there are none."""
        findings = self.findings or (Finding(level="info", path="", message=_NO_PROBLEM),)
        issues = [_issue(finding) for finding in findings]
        return {"resourceType": "OperationOutcome", "issue": issues}


def _issue(finding: Finding) -> dict[str, str]:
    text = f"{finding.path}: {finding.message}" if finding.path else finding.message
    code = "invalid" if finding.level == "error" else "informational"
    return {"severity": _SEVERITIES[finding.level], "code": code, "diagnostics": text}


class Writer:
    """Write to one record in one mode. `apply` needs a `WritableRecord`, such as an `Overlay`."""

    def __init__(
        self, record: Record, mode: WriteMode = WriteMode.READ_ONLY, audit: AuditLog | None = None
    ) -> None:
        if mode is WriteMode.APPLY and not isinstance(record, WritableRecord):
            message = "Mode apply needs a record that can be added to: an Overlay, or a server."
            raise FhirError(message)
        self.record = record
        self.mode = mode
        self._audit = audit
        self._checks = RecordChecks(record) if isinstance(record, LocalRecord) else None

    def post(
        self,
        resource_type: str,
        body: str,
        *,
        url: str = "",
        who: str = "",
        evidence: Sequence[str] = (),
        against: Sequence[str] = (),
    ) -> WriteResult:
        """Write one resource; `body` is its JSON. Never raises for a bad body: see the findings.

        `against` are reasons of the caller to refuse: with any, nothing is written and they are
        logged.
        """
        payload = _parse(body)
        if against:
            result = _refuse(409, against)
        else:
            result = self._write(resource_type, payload)
        logged = body if isinstance(payload, InvalidBody) else payload
        self.log_write(
            "POST",
            url or resource_type,
            logged,
            result,
            who=who,
            evidence=evidence,
        )
        return result

    def log_write(
        self,
        method: str,
        url: str,
        payload: Any,
        result: WriteResult,
        *,
        who: str = "",
        evidence: Sequence[str] = (),
    ) -> None:
        """Add a write and its result to the audit log, if there is one."""
        if self._audit is None:
            return
        entry = AuditEntry(
            at=dates.format_instant(dates.utc_now_microseconds()),
            who=who,
            mode=self.mode.value,
            method=method,
            url=url,
            payload=payload,
            status=result.status,
            findings=tuple(finding.model_dump() for finding in result.findings),
            location=result.location,
            evidence=tuple(evidence),
        )
        self._audit.add(entry)

    def record_findings(self, resource: Any) -> list[Finding]:
        """Return what the record says against a resource: warnings, none if it is on a server."""
        return self._checks.findings(resource) if self._checks else []

    def _write(self, resource_type: str, payload: Any) -> WriteResult:
        if self.mode is WriteMode.READ_ONLY:
            return _refuse(403, ["this record is read-only."])
        if isinstance(payload, InvalidBody):
            return _refuse(400, [f"the body {payload}"])
        findings = tuple(validate_resource(payload, resource_type, self.has_patient))
        if self.mode is WriteMode.RECORD:
            return WriteResult(status=200, findings=tuple(map(_as_warning, findings)))
        if any(finding.level == "error" for finding in findings):
            return WriteResult(status=422, findings=findings)
        return self._accept(resource_type, payload, findings)

    def _accept(
        self, resource_type: str, payload: Any, findings: tuple[Finding, ...]
    ) -> WriteResult:
        """Compare a valid resource with the record, and store it in mode apply."""
        findings = (*findings, *self.record_findings(payload))
        if self.mode is WriteMode.VALIDATE:
            if self._checks is not None:
                self._checks.remember(payload)
            return WriteResult(status=200, findings=findings)
        assert isinstance(self.record, WritableRecord)
        stored = self.record.create(payload)
        location = f"{resource_type}/{stored['id']}/_history/1"
        return WriteResult(
            status=201,
            findings=findings,
            location=location,
            stored=stored,
        )

    def has_patient(self, patient: str) -> bool:
        """Whether the record has a Patient of this id."""
        return self.record.get("Patient", patient) is not None


def _parse(body: str) -> Any:
    """Return the value of a body, or the `InvalidBody` that says why there is none."""
    try:
        return parse_request_body(body)
    except InvalidBody as error:
        return error


def _refuse(status: int, messages: Iterable[str]) -> WriteResult:
    findings = [Finding(level="error", path="", message=message) for message in messages]
    return WriteResult(status=status, findings=tuple(findings))


def _as_warning(finding: Finding) -> Finding:
    """Weaken an error: MedAgentBench's grader requires shapes that R4 does not have."""
    if finding.level != "error":
        return finding
    return finding.model_copy(update={"level": "warn"})
