"""Writing to a record, in one of four modes; every attempt is in the audit log.

read-only  refuses (the default)
record     only looks whether the body is JSON, stores nothing: what MedAgentBench's controller does
validate   checks as if it were to be stored, stores nothing
apply      checks and stores: in an overlay that can be reset, or on a server
"""

import json
from collections.abc import Sequence
from typing import Any

from archqa.core.value import FrozenModel
from archqa.core.write_mode import WriteMode
from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.record import Record, WritableRecord
from archqa.fhir.values import dates
from archqa.fhir.values.json_spans import parse
from archqa.fhir.write.audit import AuditEntry, AuditLog
from archqa.fhir.write.validation import Finding, validate_resource

__all__ = ["WriteMode", "WriteResult", "Writer"]


class WriteResult(FrozenModel):
    """What became of one write. `status` is the HTTP status; `stored` the resource where one was stored."""

    status: int
    findings: tuple[Finding, ...] = ()
    location: str | None = None
    stored: dict[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        """Whether it did what its mode does with a good write."""
        return self.status < 400

    def outcome(self) -> dict[str, Any]:
        """The findings as an OperationOutcome."""
        level = {"error": "error", "warn": "warning", "info": "information"}
        found = operation_outcome([], "", "")
        for each in self.findings:
            text = f"{each.path}: {each.message}" if each.path else each.message
            code = "invalid" if each.level == "error" else "informational"
            found["issue"].append(
                {"severity": level[each.level], "code": code, "diagnostics": text}
            )
        return found


class Writer:
    """Writes to one record in one mode. `apply` needs a record that can be added to, such as an `Overlay`."""

    def __init__(
        self, record: Record, mode: WriteMode = WriteMode.READ_ONLY, audit: AuditLog | None = None
    ) -> None:
        if mode is WriteMode.APPLY and not isinstance(record, WritableRecord):
            raise FhirError(
                "Mode apply needs a record that can be added to: an Overlay, or a server."
            )
        self.record = record
        self.mode = mode
        self._audit = audit

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
        """Write one resource; `body` is its JSON. Never raises for a bad body: what is wrong stands in the findings.

        `against` are reasons that somebody else has: with any of them nothing is written, and they are kept.
        """
        payload = _parsed(body)
        written = _refused(409, *against) if against else self._written(resource_type, payload)
        said = body if payload is _NO_JSON else payload
        self.note("POST", url or resource_type, said, written, who=who, evidence=evidence)
        return written

    def note(
        self,
        method: str,
        url: str,
        payload: Any,
        written: WriteResult,
        *,
        who: str = "",
        evidence: Sequence[str] = (),
    ) -> None:
        """Write down what was asked and what became of it, where there is an audit log."""
        if self._audit is None:
            return
        entry = AuditEntry(
            at=dates.format_instant(dates.utc_now_microseconds()),
            who=who,
            mode=self.mode.value,
            method=method,
            url=url,
            payload=payload,
            status=written.status,
            findings=tuple(each.model_dump() for each in written.findings),
            location=written.location,
            evidence=tuple(evidence),
        )
        self._audit.add(entry)

    def _written(self, resource_type: str, payload: Any) -> WriteResult:
        if self.mode is WriteMode.READ_ONLY:
            return _refused(403, "this record is read-only.")
        if payload is _NO_JSON:
            return _refused(400, "the body is not JSON.")
        found = validate_resource(
            payload, resource_type, lambda patient: self.record.get("Patient", patient) is not None
        )
        if self.mode is WriteMode.RECORD:
            return WriteResult(
                status=200, findings=tuple(each.model_copy(update=_softer(each)) for each in found)
            )
        if any(each.level == "error" for each in found):
            return WriteResult(status=422, findings=tuple(found))
        if self.mode is WriteMode.VALIDATE:
            return WriteResult(status=200, findings=tuple(found))
        assert isinstance(self.record, WritableRecord)
        stored = self.record.create(payload)
        location = f"{resource_type}/{stored['id']}/_history/1"
        return WriteResult(status=201, findings=tuple(found), location=location, stored=stored)


_NO_JSON = object()


def _parsed(body: str) -> Any:
    try:
        value = parse(body)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return _NO_JSON
    return value


def _refused(status: int, *messages: str) -> WriteResult:
    return WriteResult(
        status=status,
        findings=tuple(Finding(level="error", path="", message=each) for each in messages),
    )


def _softer(finding: Finding) -> dict[str, str]:
    """MedAgentBench's grader wants shapes that R4 does not have: in its mode they are only worth a warning."""
    return {"level": "warn"} if finding.level == "error" else {}
