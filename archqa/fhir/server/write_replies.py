"""The reply to a create, as the client prefers it. Source: hl7.org/fhir/R4/http.html#create."""

import json
from typing import NamedTuple

from archqa.fhir.local_record import LocalRecord
from archqa.fhir.server.preferences import ReturnPreference
from archqa.fhir.server.versions import version_headers
from archqa.fhir.values.references import parse_reference
from archqa.fhir.write.writer import WriteResult


class WriteReply(NamedTuple):
    """Status, body (JSON text, empty for none) and headers."""

    status: int
    body: str
    headers: dict[str, str]


def reply_to_create(
    result: WriteResult, record: LocalRecord, base: str, preference: ReturnPreference | None
) -> WriteReply:
    """Return the reply to a create: the resource that is stored now, or the findings.

    A client that gets the resource gets the warnings in a header.
    """
    outcome = json.dumps(result.outcome())
    target = parse_reference(result.location) if result.location else None
    version = record.version(*target) if target is not None else None
    if version is None:
        return WriteReply(result.status, outcome, {})
    headers = {"location": f"{base}/{version.location}", **version_headers(version)}
    if preference is ReturnPreference.OUTCOME:
        return WriteReply(result.status, outcome, headers)
    warnings = _warning_header(result)
    if warnings:
        headers["warning"] = warnings
    text = "" if preference is ReturnPreference.MINIMAL else version.text
    return WriteReply(result.status, text, headers)


def _warning_header(result: WriteResult) -> str:
    """Return the warnings as a `Warning` header (RFC 7234, section 5.5); empty for none."""
    values = []
    for finding in result.findings:
        if finding.level != "warn":
            continue
        text = f"{finding.path}: {finding.message}".removeprefix(": ")
        plain = text.encode("ascii", "replace").decode().replace("\\", "/").replace('"', "'")
        values.append(f'199 archqa "{" ".join(plain.split())}"')
    return ", ".join(values)
