"""Bundles of requests: a batch has independent entries, a transaction succeeds or fails as a whole.

`GET` works in every mode; `POST Type` and `PUT Type/id` load new resources, in mode apply. The
conditions of an entry (`ifNoneMatch`, `ifModifiedSince`, `ifMatch`) hold as the headers do.
Source: hl7.org/fhir/R4/http.html#transaction, bundle.html#Bundle.entry.request.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Resource
from archqa.fhir.request_budget import check_budget
from archqa.fhir.search.versions import ResourceVersion
from archqa.fhir.server.handling import outcome_of_warning
from archqa.fhir.server.preferences import ReturnPreference
from archqa.fhir.server.response import Headers
from archqa.fhir.server.versions import entity_tag, matches_entity_tag
from archqa.fhir.values import dates
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.write.overlay import Overlay
from archqa.fhir.write.validation import REQUIRED_ELEMENTS, Finding
from archqa.fhir.write.writer import WriteResult

Get = Callable[[str, Headers], tuple[int, str, Headers]]
"""Answer a relative URL and headers with status, body and headers."""

LogWrite = Callable[[str, str, Any, WriteResult], None]
"""Log a write in the audit log: method, URL, payload, result."""

FindWarnings = Callable[[Resource], list[Finding]]
"""Return what the record says against a resource."""

_CONDITIONS = {
    "ifNoneExist": "if-none-exist",
    "ifNoneMatch": "if-none-match",
    "ifModifiedSince": "if-modified-since",
    "ifMatch": "if-match",
}
"""The conditions of an entry, and the headers that say the same."""

_ALLOWED_CONDITIONS = {
    "GET": {"if-none-match", "if-modified-since"},
    "POST": set(),
    "PUT": {"if-match", "if-none-match"},
}


MAX_ENTRIES = 5000
"""Requests in a Bundle."""

MAX_COMPARED = 100
"""Writes of a Bundle that are compared with the record: that takes some 10 ms a resource."""


class Request(NamedTuple):
    """One entry: method, URL and resource; other entries refer to the resource by `full_url`.

    `conditions` are headers.
    """

    method: str
    url: str
    resource: Resource | None
    full_url: str = ""
    conditions: Mapping[str, str] = {}


class Writes(NamedTuple):
    """What the writes of a Bundle need, and how their entries are answered."""

    overlay: Overlay | None
    log: LogWrite
    find_warnings: FindWarnings
    preference: ReturnPreference | None


def process_bundle(body: str, get: Get, writes: Writes) -> str:
    """Process a Bundle and return the response Bundle, in which resources keep their exact text.

    Without an overlay only `GET` is allowed.

    Raises `FhirError` for an invalid Bundle, and for the first bad entry of a transaction, of which
    nothing is stored then.
    """
    bundle_type, requests = _parse_bundle(body)
    if writes.overlay is None and any(map(_is_write, requests)):
        raise FhirError("Bundles are loaded in mode apply only.", 403, "forbidden")
    if sum(map(_is_write, requests)) > MAX_COMPARED:
        writes = writes._replace(find_warnings=_not_compared)
    processor = _BundleProcessor(get, writes, _new_references(requests))
    if bundle_type == "transaction":
        responses = processor.process_transaction(requests)
    else:
        responses = [processor.process_alone(request) for request in requests]
    head = f'"resourceType": "Bundle", "type": "{bundle_type}-response"'
    return f'{{{head}, "entry": [{", ".join(responses)}]}}'


def _not_compared(resource: Resource) -> list[Finding]:
    if resource.get("resourceType") not in REQUIRED_ELEMENTS:
        return []
    message = f"not compared with the record: the Bundle has more than {MAX_COMPARED} writes."
    return [Finding(level="info", path="", message=message)]


def _is_write(request: Request | None) -> bool:
    return request is not None and request.method != "GET"


class _BundleProcessor:
    """Process requests on one overlay. `references` maps the full URLs of new resources."""

    def __init__(self, get: Get, writes: Writes, references: dict[str, str]) -> None:
        self._overlay = writes.overlay
        self._get = get
        self._writes = writes
        self._references = references
        self._answered: list[tuple[Request, WriteResult]] = []
        """The writes that are not in the audit log yet."""

    def process_alone(self, request: Request | None) -> str:
        """Process one entry of a batch; its failure does not affect other entries."""
        alone = self._transaction() if _is_write(request) else nullcontext()
        try:
            with alone:
                text = self._process(request)
                self._log()
            return text
        except FhirError as error:
            return _error_text(error.status, json.dumps(error.outcome()))

    def process_transaction(self, requests: Sequence[Request | None]) -> list[str]:
        """Process all entries or none; writes come before reads (http.html#trules)."""
        positions = range(len(requests))
        order = sorted(positions, key=lambda position: _rank(requests[position]))
        responses: dict[int, str] = {}
        with self._transaction():
            for position in order:
                try:
                    responses[position] = self._process(requests[position])
                except FhirError as error:
                    self._log(error.status)
                    raise _transaction_error(position, error) from None
            self._log()
        return [responses[position] for position in positions]

    def _transaction(self) -> AbstractContextManager[None]:
        if self._overlay is None:
            return nullcontext()
        return self._overlay.transaction()

    def _log(self, status: int | None = None) -> None:
        """Log the writes that were answered: within their transaction, or none is stored.

        `status` is the error that undoes them.
        """
        for request, result in self._answered:
            if status is not None:
                finding = Finding(level="error", path="", message="another entry failed: undone.")
                result = WriteResult(status=status, findings=(*result.findings, finding))
            self._writes.log(request.method, request.url, request.resource, result)
        self._answered.clear()

    def _process(self, request: Request | None) -> str:
        """Return the entry of the response, as JSON."""
        check_budget()
        if request is None:
            raise FhirError("An entry needs a request GET, POST or PUT, and a resource to write.")
        _check_request(request)
        if request.method == "GET":
            return self._read(request)
        assert self._overlay is not None
        assert request.resource is not None
        resource = _rewrite_references(request.resource, self._references)
        warnings = tuple(self._writes.find_warnings(resource))
        stored = self._write(self._overlay, request, resource)
        location = stored.location
        return self._answer(
            request, stored, WriteResult(status=201, findings=warnings, location=location)
        )

    def _read(self, request: Request) -> str:
        status, body, headers = self._get(request.url, request.conditions)
        if status >= 400:
            return _error_text(status, body)
        response: dict[str, Any] = {"status": str(status)}
        if "etag" in headers:
            response["etag"] = headers["etag"]
        warnings = outcome_of_warning(headers)
        if warnings:
            response["outcome"] = json.loads(warnings)
        resource = f'"resource": {body}, ' if body else ""
        return f'{{{resource}"response": {json.dumps(response)}}}'

    def _answer(self, request: Request, version: ResourceVersion, result: WriteResult) -> str:
        """Return the entry of a write: with the resource only if the client prefers that."""
        self._answered.append((request, result))
        response = {
            "status": str(result.status),
            "location": version.location,
            "etag": entity_tag(version),
            "lastModified": dates.format_instant(version.updated),
        }
        text = json.dumps({"response": response})
        if result.findings or self._writes.preference is ReturnPreference.OUTCOME:
            text = f'{text[:-2]}, "outcome": {json.dumps(result.outcome())}}}}}'
        if self._writes.preference is ReturnPreference.REPRESENTATION:
            text = f'{{"resource": {version.text}, {text[1:]}'
        return text

    def _write(
        self,
        overlay: Overlay,
        request: Request,
        resource: Resource,
    ) -> ResourceVersion:
        if request.method == "PUT":
            _check_preconditions(overlay, request, resource)
            overlay.put(json.dumps(resource, ensure_ascii=False), resource)
            stored = resource
        else:
            reference = self._references.get(request.full_url, "")
            stored = overlay.create(resource, reference.partition("/")[2] or None)
        version = overlay.version(stored["resourceType"], stored["id"])
        assert version is not None
        return version


def _check_request(request: Request) -> None:
    """Raise `FhirError` for a URL or a condition that the method does not have."""
    allowed = _ALLOWED_CONDITIONS[request.method]
    unsupported = [name for name in request.conditions if name not in allowed]
    if unsupported:
        names = ", ".join(_entry_name(name) for name in unsupported)
        raise FhirError(f"{request.method} does not take {names}.", 400, "not-supported")
    if request.resource is None:
        return
    expected = str(request.resource.get("resourceType"))
    if request.method == "PUT":
        expected = f"{expected}/{request.resource.get('id')}"
    if request.url.strip("/") != expected:
        form = "Type/id" if request.method == "PUT" else "Type"
        raise FhirError(f"{request.method} needs the URL {form}, with those of the resource.")


def _entry_name(header: str) -> str:
    return next(name for name, written in _CONDITIONS.items() if written == header)


def _check_preconditions(overlay: Overlay, request: Request, resource: Resource) -> None:
    """Raise `FhirError` (412) if the version that is stored fails a condition of a `PUT`."""
    if not request.conditions:
        return
    version = overlay.version(str(resource.get("resourceType")), str(resource.get("id")))
    required = request.conditions.get("if-match")
    refused = request.conditions.get("if-none-match")
    if required is not None and (version is None or not matches_entity_tag(version, required)):
        raise FhirError("ifMatch: that version is not stored.", 412, "conflict")
    if refused is not None and version is not None and matches_entity_tag(version, refused):
        raise FhirError("ifNoneMatch: that version is stored.", 412, "conflict")


def _error_text(status: int, outcome: str) -> str:
    return f'{{"response": {{"status": "{status}", "outcome": {outcome}}}}}'


def _transaction_error(position: int, error: FhirError) -> FhirError:
    """Return the error of a transaction that fails because of the entry at this position."""
    diagnostics = ["Nothing was stored."]
    for text in error.diagnostics:
        diagnostics.append(f"Entry {position + 1}: {text}")
    return FhirError(diagnostics, error.status, error.code)


def _rank(request: Request | None) -> int:
    """Return the rank of a request in the order of a transaction."""
    if request is None:
        return 0
    return {"POST": 0, "PUT": 1, "GET": 2}[request.method]


def _parse_bundle(body: str) -> tuple[str, list[Request | None]]:
    """Return the type of a Bundle and its requests, None for an invalid entry."""
    try:
        content = parse_request_body(body)
    except InvalidBody as error:
        raise FhirError(f"The body {error}") from None
    if not isinstance(content, dict):
        content = {}
    bundle_type = content.get("type")
    entries = content.get("entry")
    if not isinstance(entries, list) or bundle_type not in {"batch", "transaction"}:
        raise FhirError("The body must be a Bundle of type batch or transaction with entries.")
    if len(entries) > MAX_ENTRIES:
        limit = f"A Bundle of requests has at most {MAX_ENTRIES} entries."
        raise FhirError(f"{limit} Send several.", 413, "too-costly")
    requests = [_parse_request(entry) for entry in entries]
    return bundle_type, requests


def _parse_request(entry: Any) -> Request | None:
    request = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(request, dict):
        return None
    method = request.get("method")
    url = request.get("url")
    resource = entry.get("resource")
    conditions = {}
    for name, header in _CONDITIONS.items():
        if name in request:
            conditions[header] = str(request[name])
    if method == "GET" and isinstance(url, str):
        return Request("GET", url, None, conditions=conditions)
    if method not in {"POST", "PUT"} or not isinstance(resource, dict):
        return None
    if not isinstance(url, str):
        url = ""
    full_url = str(entry.get("fullUrl", ""))
    return Request(method, url, resource, full_url, conditions)


def _new_references(requests: Sequence[Request | None]) -> dict[str, str]:
    """Return the reference that each `urn:uuid:` of a new resource will get."""
    references = {}
    for request in requests:
        if request is None or not request.resource or request.method != "POST":
            continue
        if request.full_url.startswith("urn:uuid:"):
            resource_type = request.resource.get("resourceType")
            references[request.full_url] = f"{resource_type}/{uuid.uuid4()}"
    return references


def _rewrite_references(value: Any, references: Mapping[str, str]) -> Any:
    """Return the same JSON with references to new resources of the Bundle replaced."""
    if isinstance(value, list):
        return [_rewrite_references(item, references) for item in value]
    if not isinstance(value, dict):
        return value
    rewritten = {}
    for name, member in value.items():
        if name == "reference" and isinstance(member, str):
            rewritten[name] = references.get(member, member)
        else:
            rewritten[name] = _rewrite_references(member, references)
    return rewritten
