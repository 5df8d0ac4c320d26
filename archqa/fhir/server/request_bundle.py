"""Bundles of requests: a batch has independent entries, a transaction succeeds or fails as a whole.

`GET` works in every mode; `POST Type` and `PUT Type/id` load new resources, in mode apply.
Source: hl7.org/fhir/R4/http.html#transaction.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Resource
from archqa.fhir.request_budget import check_budget
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.write.overlay import Overlay

Get = Callable[[str], tuple[int, str, str]]
"""Answer a relative URL with status, body, and an OperationOutcome of warnings (or nothing)."""

LogWrite = Callable[[str, str, Any, int], None]
"""Log a write in the audit log: method, URL, payload, status."""


MAX_ENTRIES = 5000
"""Requests in a Bundle."""


class Request(NamedTuple):
    """One entry: method, URL and resource; other entries refer to the resource by `full_url`."""

    method: str
    url: str
    resource: Resource | None
    full_url: str = ""


def process_bundle(body: str, overlay: Overlay | None, get: Get, log_write: LogWrite) -> str:
    """Process a Bundle and return the response Bundle, in which resources keep their exact text.

    Without an overlay only `GET` is allowed.

    Raises `FhirError` for an invalid Bundle, and for the first bad entry of a transaction, of which
    nothing is stored then.
    """
    bundle_type, requests = _parse_bundle(body)
    if overlay is None and any(map(_is_write, requests)):
        raise FhirError("Bundles are loaded in mode apply only.", 403, "forbidden")
    processor = _BundleProcessor(
        overlay,
        get,
        log_write,
        _new_references(requests),
    )
    if bundle_type == "transaction":
        responses = processor.process_transaction(requests)
    else:
        responses = [processor.process_alone(request) for request in requests]
    head = f'"resourceType": "Bundle", "type": "{bundle_type}-response"'
    return f'{{{head}, "entry": [{", ".join(responses)}]}}'


def _is_write(request: Request | None) -> bool:
    return request is not None and request.method != "GET"


class _BundleProcessor:
    """Process requests on one overlay. `references` maps the full URLs of new resources."""

    def __init__(
        self,
        overlay: Overlay | None,
        get: Get,
        log_write: LogWrite,
        references: Mapping[str, str],
    ) -> None:
        self._overlay = overlay
        self._get = get
        self._log_write = log_write
        self._references = references

    def process_alone(self, request: Request | None) -> str:
        """Process one entry of a batch; its failure does not affect other entries."""
        try:
            return self._process(request)
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
                    raise _transaction_error(position, error) from None
        return [responses[position] for position in positions]

    def _transaction(self) -> AbstractContextManager[None]:
        if self._overlay is None:
            return nullcontext()
        return self._overlay.transaction()

    def _process(self, request: Request | None) -> str:
        """Return the entry of the response, as JSON."""
        check_budget()
        if request is None:
            raise FhirError("An entry needs a request GET, POST or PUT, and a resource to write.")
        if request.method == "GET":
            return self._read(request.url)
        assert self._overlay is not None
        assert request.resource is not None
        resource = _rewrite_references(request.resource, self._references)
        stored = self._write(self._overlay, request, resource)
        self._log_write(request.method, request.url, request.resource, 201)
        location = f"{stored['resourceType']}/{stored['id']}/_history/1"
        return json.dumps({"response": {"status": "201", "location": location}})

    def _read(self, url: str) -> str:
        status, body, warnings = self._get(url)
        if status >= 400:
            return _error_text(status, body)
        outcome = f', "outcome": {warnings}' if warnings else ""
        return f'{{"resource": {body}, "response": {{"status": "{status}"{outcome}}}}}'

    def _write(
        self,
        overlay: Overlay,
        request: Request,
        resource: Resource,
    ) -> Resource:
        if request.method == "PUT":
            overlay.put(json.dumps(resource, ensure_ascii=False), resource)
            return resource
        reference = self._references.get(request.full_url, "")
        return overlay.create(resource, reference.partition("/")[2] or None)


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
    if method == "GET" and isinstance(url, str):
        return Request("GET", url, None)
    if method not in {"POST", "PUT"} or not isinstance(resource, dict):
        return None
    if not isinstance(url, str):
        url = ""
    full_url = str(entry.get("fullUrl", ""))
    return Request(method, url, resource, full_url)


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
