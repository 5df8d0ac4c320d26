"""Answer creates, batches and transactions, as the client prefers.

Entries of a batch are independent, a transaction succeeds or fails as a whole. `GET` works in every
mode; `POST Type` and `PUT Type/id` write new resources, in mode apply, of the types that `metadata`
lists and after the checks of a single write (`Writer.check`). The conditions of an entry
(`ifNoneMatch`, `ifModifiedSince`, `ifMatch`) hold as the headers do.
Sources: hl7.org/fhir/R4/http.html#create, #transaction, bundle.html#Bundle.entry.request.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from archqa.fhir.index.blobs import StoredResource
from archqa.fhir.record import FhirError, Resource, member_of
from archqa.fhir.request_budget import check_budget, forbid_streaming
from archqa.fhir.server.capability import MAX_ENTRIES
from archqa.fhir.server.context import FhirResponse, RequestContext
from archqa.fhir.server.negotiation import (
    GENERAL_PARAMETERS,
    ReturnPreference,
    outcome_of_warning,
    preferred_return,
    supported_parameters,
)
from archqa.fhir.server.reading import entity_tag, matches_entity_tag, version_headers
from archqa.fhir.values import dates
from archqa.fhir.values.json_text import InvalidBody, parse_request_body
from archqa.fhir.values.references import parse_reference
from archqa.fhir.write.overlay import Overlay
from archqa.fhir.write.validation import Finding
from archqa.fhir.write.writer import WriteMode, WriteResult, refusal

MAX_COMPARED = 100
"""Writes of a Bundle that are compared with the record: that takes some 10 ms a resource."""

_CONDITIONS = {
    "ifNoneExist": "if-none-exist",
    "ifNoneMatch": "if-none-match",
    "ifModifiedSince": "if-modified-since",
    "ifMatch": "if-match",
}
"""The conditions of an entry, and the headers that say the same."""

_ALLOWED_CONDITIONS = {
    "GET": {"ifNoneMatch", "ifModifiedSince"},
    "POST": set[str](),
    "PUT": {"ifMatch", "ifNoneMatch"},
}

_RANKS = {
    "POST": 0,
    "PUT": 1,
    "GET": 2,
}
"""The order of a transaction (hl7.org/fhir/R4/http.html#trules)."""


def create(context: RequestContext) -> FhirResponse:
    """Answer `POST Type`: with the resource that is stored now, or with the findings.

    A client that gets the resource gets the warnings in a header.
    """
    supported_parameters(
        context,
        context.params,
        GENERAL_PARAMETERS,
        "A write",
    )
    if "if-none-exist" in context.headers:
        raise FhirError(
            "A conditional create (If-None-Exist) is not supported.",
            400,
            "not-supported",
        )
    preference = preferred_return(context.headers)
    result = context.writer.post(
        context.path.type,
        context.body,
        url=f"{context.base}/{context.path.type}",
        who=context.headers.get("x-archqa-who", ""),
    )
    target = parse_reference(result.location) if result.location else None
    stored = context.record.stored(*target) if target is not None else None
    if stored is None:
        return FhirResponse(result.status, json.dumps(result.outcome()))
    headers = {
        "location": f"{context.base}/{stored.location}",
        **version_headers(stored),
    }
    if preference is ReturnPreference.OUTCOME:
        return FhirResponse(result.status, json.dumps(result.outcome()), headers)
    warnings = _warning_header(result)
    if warnings:
        headers["warning"] = warnings
    text = "" if preference is ReturnPreference.MINIMAL else stored.text
    return FhirResponse(result.status, text, headers)


def _warning_header(result: WriteResult) -> str:
    """Return the warnings as a `Warning` header (RFC 7234, section 5.5); empty for none."""
    values = []
    for finding in result.findings:
        if finding.level == "warn":
            plain = (
                finding.text.encode("ascii", "replace")
                .decode()
                .replace("\\", "/")
                .replace('"', "'")
            )
            values.append(f'199 archqa "{" ".join(plain.split())}"')
    return ", ".join(values)


def process_bundle(context: RequestContext) -> FhirResponse:
    """Answer a batch or transaction with a Bundle in which resources keep their exact text.

    Raises `FhirError` for an invalid Bundle, and for the first bad entry of a transaction, of which
    nothing is stored then.
    """
    supported_parameters(
        context,
        context.params,
        GENERAL_PARAMETERS,
        "A write",
    )
    forbid_streaming()
    bundle_type, entries = _parse_bundle(context.body)
    overlay = None
    if context.writer.mode is WriteMode.APPLY and isinstance(context.record, Overlay):
        overlay = context.record
    writes = [entry for entry in entries if entry is not None and entry.method != "GET"]
    preference = preferred_return(context.headers)
    if overlay is None and writes:
        raise FhirError("Bundles are loaded in mode apply only.", 403, "forbidden")
    bundle = _Bundle(
        context,
        overlay,
        writes,
        preference,
    )
    if bundle_type == "transaction":
        responses = bundle.process_transaction(entries)
    else:
        responses = [bundle.process_alone(entry) for entry in entries]
    head = f'"resourceType": "Bundle", "type": "{bundle_type}-response"'
    return FhirResponse(200, f'{{{head}, "entry": [{", ".join(responses)}]}}')


class _Entry(NamedTuple):
    """A request of a Bundle; other entries refer to its resource by `full_url`."""

    method: str
    url: str
    resource: Resource | None
    full_url: str
    conditions: Mapping[str, str]


def _parse_bundle(body: str) -> tuple[str, list[_Entry | None]]:
    """Return the type of a Bundle and its entries, None for an invalid one."""
    try:
        content = parse_request_body(body)
    except InvalidBody as error:
        raise FhirError(f"The body {error}") from None
    if not isinstance(content, dict):
        content = {}
    bundle_type, items = content.get("type"), content.get("entry")
    if not isinstance(items, list) or bundle_type not in {"batch", "transaction"}:
        raise FhirError(
            "The body must be a Bundle of type batch or transaction with entries."
        )
    if len(items) > MAX_ENTRIES:
        limit = f"A Bundle of requests has at most {MAX_ENTRIES} entries."
        raise FhirError(f"{limit} Send several.", 413, "too-costly")
    return bundle_type, [_parse_entry(item) for item in items]


def _parse_entry(item: Any) -> _Entry | None:
    request = member_of(item, "request")
    if not isinstance(request, dict):
        return None
    method, url, resource = (
        request.get("method"),
        request.get("url"),
        item.get("resource"),
    )
    conditions = {name: str(request[name]) for name in _CONDITIONS if name in request}
    if method == "GET" and isinstance(url, str):
        return _Entry(
            "GET",
            url,
            None,
            "",
            conditions,
        )
    if method not in {"POST", "PUT"} or not isinstance(resource, dict):
        return None
    if not isinstance(url, str):
        url = ""
    return _Entry(
        method,
        url,
        resource,
        str(item.get("fullUrl", "")),
        conditions,
    )


class _Bundle:
    """A Bundle that is processed on one overlay, or that only reads (None)."""

    def __init__(
        self,
        context: RequestContext,
        overlay: Overlay | None,
        writes: Sequence[_Entry],
        preference: ReturnPreference | None,
    ) -> None:
        self._context = context
        self._overlay = overlay
        self._preference = preference
        self._is_compared = len(writes) <= MAX_COMPARED
        self._new_ids: dict[str, str] = {}
        self._references: dict[str, str] = {}
        """The references that stand for the `urn:uuid:` of new resources."""
        for entry in writes:
            if (
                entry.method == "POST"
                and entry.resource
                and entry.full_url.startswith("urn:uuid:")
            ):
                new_id = str(uuid.uuid4())
                self._new_ids[entry.full_url] = new_id
                self._references[entry.full_url] = (
                    f"{entry.resource.get('resourceType')}/{new_id}"
                )
        self._unlogged: list[tuple[_Entry, WriteResult]] = []

    def process_alone(self, entry: _Entry | None) -> str:
        """Process one entry of a batch; its failure does not affect other entries."""
        is_write = entry is not None and entry.method != "GET"
        try:
            with self._transaction() if is_write else nullcontext():
                text = self._process(entry)
                self._log()
            return text
        except FhirError as error:
            self._add_refusal(entry, error)
            self._log()
            return _error_text(error.status, json.dumps(error.outcome()))

    def process_transaction(self, entries: Sequence[_Entry | None]) -> list[str]:
        """Process all entries or none; writes come before reads."""
        positions = range(len(entries))
        responses: dict[int, str] = {}

        def rank(position: int) -> int:
            entry = entries[position]
            return 0 if entry is None else _RANKS[entry.method]

        with self._transaction():
            for position in sorted(positions, key=rank):
                try:
                    responses[position] = self._process(entries[position])
                except FhirError as error:
                    self._add_refusal(entries[position], error)
                    self._log(error.status)
                    diagnostics = ["Nothing was stored."]
                    for text in error.diagnostics:
                        diagnostics.append(f"Entry {position + 1}: {text}")
                    raise FhirError(diagnostics, error.status, error.code) from None
            self._log()
        return [responses[position] for position in positions]

    def _transaction(self) -> AbstractContextManager[None]:
        return nullcontext() if self._overlay is None else self._overlay.transaction()

    def _log(self, status: int | None = None) -> None:
        """Log the writes that were answered: within their transaction, or none is stored.

        `status` is the error that undoes them.
        """
        who = self._context.headers.get("x-archqa-who", "")
        for entry, result in self._unlogged:
            if status is not None and result.accepted:
                finding = Finding(
                    level="error", path="", message="another entry failed: undone."
                )
                result = WriteResult(
                    status=status, findings=(*result.findings, finding)
                )
            self._context.writer.log_write(
                entry.method,
                entry.url,
                entry.resource,
                result,
                who=who,
            )
        self._unlogged.clear()

    def _add_refusal(self, entry: _Entry | None, error: FhirError) -> None:
        """Let an entry that is refused be logged, if it writes."""
        if entry is not None and entry.resource is not None:
            result = refusal(error.status, error.diagnostics)
            self._unlogged.append((entry, result))

    def _process(self, entry: _Entry | None) -> str:
        """Return the entry of the response, as JSON. Raises `FhirError`."""
        check_budget()
        if entry is None:
            raise FhirError(
                "An entry needs a request GET, POST or PUT, and a resource to write."
            )
        unsupported = entry.conditions.keys() - _ALLOWED_CONDITIONS[entry.method]
        if unsupported:
            names = ", ".join(name for name in entry.conditions if name in unsupported)
            raise FhirError(
                f"{entry.method} does not take {names}.", 400, "not-supported"
            )
        if entry.resource is None:
            headers = {
                _CONDITIONS[name]: value for name, value in entry.conditions.items()
            }
            headers["prefer"] = self._context.headers.get("prefer", "")
            reply = self._context.answer_get(entry.url, headers)
            if reply.status >= 400:
                return _error_text(reply.status, reply.body)
            response: dict[str, Any] = {"status": str(reply.status)}
            if "etag" in reply.headers:
                response["etag"] = reply.headers["etag"]
            warnings = outcome_of_warning(reply.headers)
            if warnings:
                response["outcome"] = json.loads(warnings)
            resource = f'"resource": {reply.body}, ' if reply.body else ""
            return f'{{{resource}"response": {json.dumps(response)}}}'
        assert self._overlay is not None
        return self._write(self._overlay, entry, entry.resource)

    def _write(self, overlay: Overlay, entry: _Entry, resource: Resource) -> str:
        """Check and store a resource, and return its entry: with the resource if the client prefers
        that.
        """
        resource_type, resource_id = resource.get("resourceType"), resource.get("id")
        expected = (
            f"{resource_type}/{resource_id}" if entry.method == "PUT" else resource_type
        )
        if entry.url.strip("/") != expected:
            form = "Type/id" if entry.method == "PUT" else "Type"
            raise FhirError(
                f"{entry.method} needs the URL {form}, with those of the resource."
            )
        resource = _rewrite_references(resource, self._references)
        checked = self._context.writer.check(
            str(resource_type), resource, compare=self._is_compared
        )
        findings = checked.findings
        if not checked.accepted:
            errors = [finding for finding in findings if finding.level == "error"]
            raise FhirError([error.text for error in errors], checked.status)
        if not self._is_compared:
            limit = f"the Bundle has more than {MAX_COMPARED} writes."
            findings = (
                *findings,
                Finding(
                    level="info",
                    path="",
                    message=f"not compared with the record: {limit}",
                ),
            )
        if entry.method == "PUT":
            if entry.conditions:
                _check_conditions(
                    overlay.stored(*map(str, (resource_type, resource_id))), entry
                )
            overlay.put(json.dumps(resource, ensure_ascii=False), resource)
        else:
            resource_id = overlay.create(resource, self._new_ids.get(entry.full_url))[
                "id"
            ]
        stored = overlay.stored(*map(str, (resource_type, resource_id)))
        assert stored is not None
        result = WriteResult(status=201, findings=findings, location=stored.location)
        self._unlogged.append((entry, result))
        response = {
            "status": str(result.status),
            "location": stored.location,
            "etag": entity_tag(stored),
            "lastModified": dates.format_instant(stored.updated),
        }
        text = json.dumps({"response": response})
        if findings or self._preference is ReturnPreference.OUTCOME:
            text = f'{text[:-2]}, "outcome": {json.dumps(result.outcome())}}}}}'
        if self._preference is ReturnPreference.REPRESENTATION:
            text = f'{{"resource": {stored.text}, {text[1:]}'
        return text


def _check_conditions(stored: StoredResource | None, entry: _Entry) -> None:
    """Raise `FhirError` (412) if the version that is stored fails a condition of a `PUT`."""
    required = entry.conditions.get("ifMatch")
    refused = entry.conditions.get("ifNoneMatch")
    if required is not None and (
        stored is None or not matches_entity_tag(stored, required)
    ):
        raise FhirError("ifMatch: that version is not stored.", 412, "conflict")
    if (
        refused is not None
        and stored is not None
        and matches_entity_tag(stored, refused)
    ):
        raise FhirError("ifNoneMatch: that version is stored.", 412, "conflict")


def _error_text(status: int, outcome: str) -> str:
    return f'{{"response": {{"status": "{status}", "outcome": {outcome}}}}}'


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
