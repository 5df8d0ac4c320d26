"""The requests of a bulk export: kick-off, status, files, cancellation.

    GET or POST [base]/$export, Patient/$export, Group/[id]/$export   start: 202 and the status URL
    GET    [base]/$export/[job]               202 while it runs, 200 with the manifest, 500 if it failed
    DELETE [base]/$export/[job]               stop it and remove its files: 202
    GET    [base]/$export/[job]/[file]        a file of resources, or a byte range of it

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html.
"""

import datetime
import json
from collections.abc import Iterable
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.server.byte_ranges import RangeNotSatisfiable, requested_part
from archqa.fhir.server.export_job import ExportedFile, ExportJob, JobState
from archqa.fhir.server.export_paths import KICK_OFF, STATUS_PREFIX
from archqa.fhir.server.export_request import read_export_request
from archqa.fhir.server.exports import KEPT_HOURS, Exports, FileOfExport, TooManyExports
from archqa.fhir.server.response import FhirResponse, FilePart, Headers
from archqa.fhir.values import dates
from archqa.fhir.values.urls import build_search_url

if TYPE_CHECKING:
    from archqa.fhir.server.operations import OperationCall
    from archqa.fhir.server.service import FhirService

_FILE_TYPE = "application/fhir+ndjson"

_SECONDS_BETWEEN_LOOKS = "1"
_SECONDS_UNTIL_ROOM = "30"


def start_export(service: "FhirService", call: "OperationCall") -> FhirResponse:
    """Start an export in the background and say where its status is. Raises `FhirError`."""
    request = read_export_request(service.record, call)
    parts = (call.resource_type, call.resource_id, KICK_OFF)
    path = "/".join(part for part in parts if part)
    url = f"{service.base}/{build_search_url(path, call.params)}"
    try:
        job_id = service.exports.start(url, request)
    except TooManyExports as error:
        outcome = operation_outcome([str(error)], "error", "throttled")
        return _json(429, outcome, {"retry-after": _SECONDS_UNTIL_ROOM})
    location = f"{service.base}/{STATUS_PREFIX}{job_id}"
    outcome = operation_outcome(
        ["The export runs: see Content-Location."], "information", "success"
    )
    return _json(202, outcome, {"content-location": location})


def export_reply(service: "FhirService", method: str, path: str, headers: Headers) -> FhirResponse:
    """Answer a request for the status of an export, or for a file of it. Raises `FhirError`."""
    job_id, slash, name = path.removeprefix(STATUS_PREFIX).partition("/")
    if slash:
        return _file(service.exports.file(job_id, name), headers)
    if method == "DELETE":
        return _cancel(service.exports, job_id)
    job = service.exports.get(job_id)
    if job is None:
        raise _no_export()
    return _status(job, service.base, needs_token=service.needs_token)


def _cancel(exports: Exports, job_id: str) -> FhirResponse:
    if not exports.cancel(job_id):
        raise _no_export()
    outcome = operation_outcome(["The export is removed."], "information", "success")
    return _json(202, outcome, {})


def _status(job: ExportJob, base: str, *, needs_token: bool) -> FhirResponse:
    state = job.state
    if state.status == "running":
        headers = {"x-progress": job.progress, "retry-after": _SECONDS_BETWEEN_LOOKS}
        return FhirResponse(202, "", headers)
    if state.status == "failed":
        outcome = operation_outcome([state.problem], "error", "exception")
        return _json(500, outcome, {})
    manifest = {
        "transactionTime": state.transaction_time,
        "request": state.url,
        "requiresAccessToken": needs_token,
        "output": _entries(state.files, state, base),
        "deleted": [],
        "error": _entries(state.outcomes, state, base),
    }
    headers = {"content-type": "application/json", "expires": _expiry(state)}
    return FhirResponse(200, json.dumps(manifest), headers)


def _entries(files: Iterable[ExportedFile], state: JobState, base: str) -> list[dict[str, Any]]:
    entries = []
    for file in files:
        url = f"{base}/{STATUS_PREFIX}{state.id}/{file.name}"
        entries.append({"type": file.type, "url": url, "count": file.count})
    return entries


def _expiry(state: JobState) -> str:
    """Return until when the files are kept, as an HTTP date."""
    moment = state.finished_at + KEPT_HOURS * 60 * dates.MINUTE
    instant = datetime.datetime.fromisoformat(dates.format_instant(moment))
    return format_datetime(instant.astimezone(datetime.UTC), usegmt=True)


def _file(file: FileOfExport | None, headers: Headers) -> FhirResponse:
    if file is None:
        raise FhirError("There is no such file of an export.", 404, "not-found")
    etag = f'"{file.tag}"'
    reply_headers = {"content-type": _FILE_TYPE, "accept-ranges": "bytes", "etag": etag}
    try:
        part = requested_part(headers, file.size, etag)
    except RangeNotSatisfiable:
        outcome = operation_outcome(["The file is shorter."], "error", "invalid")
        return _json(416, outcome, {"content-range": f"bytes */{file.size}"})
    file_part = FilePart(file.path, part.start, part.end)
    if part.is_whole:
        return FhirResponse(200, "", reply_headers, file=file_part)
    reply_headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{file.size}"
    return FhirResponse(206, "", reply_headers, file=file_part)


def _json(status: int, content: dict[str, Any], headers: Headers) -> FhirResponse:
    return FhirResponse(status, json.dumps(content), headers)


def _no_export() -> FhirError:
    return FhirError("There is no such export, or none any more.", 404, "not-found")
