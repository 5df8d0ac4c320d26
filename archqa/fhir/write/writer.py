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
from archqa.fhir.record import FhirError, Record, WritableRecord
from archqa.fhir.store import LocalRecord
from archqa.fhir.values import dates
from archqa.fhir.values.json_text import InvalidBody, parse_request_body
from archqa.fhir.write.audit import AuditEntry, AuditLog
from archqa.fhir.write.record_checks import RecordChecks
from archqa.fhir.write.validation import Finding, validate_resource

__all__ = ["WriteMode", "WriteResult", "Writer"]

_SEVERITIES = {
    "error": "error",
    "warn": "warning",
    "info": "information",
}

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
        issues = []
        for finding in self.findings or (
            Finding(level="info", path="", message=_NO_PROBLEM),
        ):
            code = "invalid" if finding.level == "error" else "informational"
            severity = _SEVERITIES[finding.level]
            issues.append(
                {
                    "severity": severity,
                    "code": code,
                    "diagnostics": finding.text,
                }
            )
        return {"resourceType": "OperationOutcome", "issue": issues}


class Writer:
    """Write to one record in one mode. `apply` needs a `WritableRecord`, such as an `Overlay`."""

    def __init__(
        self,
        record: Record,
        mode: WriteMode = WriteMode.READ_ONLY,
        audit: AuditLog | None = None,
    ) -> None:
        if mode is WriteMode.APPLY and not isinstance(record, WritableRecord):
            raise FhirError(
                "Mode apply needs a record that can be added to: an Overlay, or a server."
            )
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
        payload: Any = body
        invalid = ""
        try:
            payload = parse_request_body(body)
        except InvalidBody as error:
            invalid = f"the body {error}"
        if against:
            result = refusal(409, against)
        elif self.mode is WriteMode.READ_ONLY:
            result = refusal(403, ["this record is read-only."])
        elif invalid:
            result = refusal(400, [invalid])
        else:
            result = self._write(resource_type, payload)
        self.log_write(
            "POST",
            url or resource_type,
            payload,
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

    def check(
        self, resource_type: str, payload: Any, *, compare: bool = True
    ) -> WriteResult:
        """Return what modes validate and apply say of a resource that is to be written as this type.

        The status is 422 if it is refused. A valid one is compared with a record on this machine,
        which only warns, unless `compare` is false.
        """
        findings = validate_resource(payload, resource_type, self.has_patient)
        if any(finding.level == "error" for finding in findings):
            return WriteResult(status=422, findings=tuple(findings))
        if compare and self._checks is not None:
            findings += self._checks.findings(payload)
        return WriteResult(status=200, findings=tuple(findings))

    def has_patient(self, patient: str) -> bool:
        """Whether the record has a Patient of this id."""
        return self.record.get("Patient", patient) is not None

    def _write(self, resource_type: str, payload: Any) -> WriteResult:
        """Check a resource, and store a valid one in mode apply."""
        if self.mode is WriteMode.RECORD:
            # MedAgentBench's grader requires shapes that R4 does not have: errors are warnings.
            weakened = []
            for finding in validate_resource(payload, resource_type, self.has_patient):
                level = "warn" if finding.level == "error" else finding.level
                weakened.append(finding.model_copy(update={"level": level}))
            return WriteResult(status=200, findings=tuple(weakened))
        result = self.check(resource_type, payload)
        if not result.accepted:
            return result
        if self.mode is WriteMode.VALIDATE:
            if self._checks is not None:
                self._checks.remember(payload)
            return result
        assert isinstance(self.record, WritableRecord)
        stored = self.record.create(payload)
        return WriteResult(
            status=201,
            findings=result.findings,
            location=f"{resource_type}/{stored['id']}/_history/1",
            stored=stored,
        )


def refusal(status: int, messages: Iterable[str]) -> WriteResult:
    """Return the result of a write that is refused for these reasons."""
    findings = [
        Finding(level="error", path="", message=message) for message in messages
    ]
    return WriteResult(status=status, findings=tuple(findings))
