"""Bundles of requests: a batch, where each entry stands alone, and a transaction, where all happen or none.

`GET` is answered everywhere; `POST Type` and `PUT Type/id` load resources that are not there yet, in mode apply.
Source: hl7.org/fhir/R4/http.html#transaction.
"""

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Resource
from archqa.fhir.values.json_spans import parse
from archqa.fhir.write.overlay import Overlay

Get = Callable[[str], tuple[int, str]]
"""Answers a relative URL: status and body."""

Note = Callable[[str, str, Any, int], None]
"""Writes a load into the audit log: method, url, payload, status."""


class Request(NamedTuple):
    """One entry: what is to be done, where, with which resource; `full_url` is what other entries call it."""

    method: str
    url: str
    resource: Resource | None
    full_url: str = ""


def process_bundle(body: str, overlay: Overlay | None, get: Get, note: Note) -> dict[str, Any]:
    """The response Bundle. Without an overlay only `GET` is done. Raises `FhirError` for what is no such Bundle.

    A transaction that fails raises the `FhirError` of its first bad entry; nothing of it is stored.
    """
    kind, requests = _read(body)
    if overlay is None and any(each is not None and each.method != "GET" for each in requests):
        raise FhirError("Bundles are loaded in mode apply only.", 403, "forbidden")
    done = _Work(overlay, get, note, _new_ids(requests))
    answers = (
        done.together(requests)
        if kind == "transaction"
        else [done.alone(each) for each in requests]
    )
    return {"resourceType": "Bundle", "type": f"{kind}-response", "entry": answers}


class _Work:
    """Does requests on one overlay. `ids` maps the full URLs of new resources to the references they get."""

    def __init__(
        self, overlay: Overlay | None, get: Get, note: Note, ids: Mapping[str, str]
    ) -> None:
        self._overlay = overlay
        self._get = get
        self._note = note
        self._ids = ids

    def alone(self, request: Request | None) -> dict[str, Any]:
        """One entry of a batch: its failure is its own."""
        try:
            return self._do(request)
        except FhirError as error:
            return {"response": {"status": str(error.status), "outcome": error.outcome()}}

    def together(self, requests: Sequence[Request | None]) -> list[dict[str, Any]]:
        """All or nothing; writes before reads, whatever their order (http.html#trules)."""
        order = sorted(range(len(requests)), key=lambda place: (_turn(requests[place]), place))
        answers: dict[int, dict[str, Any]] = {}
        with self._overlay.transaction() if self._overlay is not None else nullcontext():
            for place in order:
                try:
                    answers[place] = self._do(requests[place])
                except FhirError as error:
                    texts = [f"Entry {place + 1}: {text}" for text in error.diagnostics]
                    raise FhirError(
                        ["Nothing was stored.", *texts], error.status, error.code
                    ) from None
        return [answers[place] for place in range(len(requests))]

    def _do(self, request: Request | None) -> dict[str, Any]:
        if request is None:
            raise FhirError("An entry needs a request GET, POST or PUT, and a resource to write.")
        if request.method == "GET":
            return self._read(request.url)
        assert self._overlay is not None
        assert request.resource is not None
        stored = self._write(self._overlay, request, _rewritten(request.resource, self._ids))
        self._note(request.method, request.url, request.resource, 201)
        location = f"{stored['resourceType']}/{stored['id']}/_history/1"
        return {"response": {"status": "201", "location": location}}

    def _read(self, url: str) -> dict[str, Any]:
        status, body = self._get(url)
        found = parse(body)
        if status >= 400:
            return {"response": {"status": str(status), "outcome": found}}
        return {"resource": found, "response": {"status": str(status)}}

    def _write(self, overlay: Overlay, request: Request, resource: Resource) -> Resource:
        if request.method == "PUT":
            overlay.put(json.dumps(resource, ensure_ascii=False), resource)
            return resource
        given = self._ids.get(request.full_url, "")
        return overlay.create(resource, given.partition("/")[2] or None)


def _turn(request: Request | None) -> int:
    return {"POST": 0, "PUT": 1, "GET": 2}[request.method] if request else 0


def _read(body: str) -> tuple[str, list[Request | None]]:
    """The kind of Bundle and its requests; None for an entry that is none."""
    try:
        content = parse(body)
    except (ValueError, RecursionError):
        raise FhirError("The body is not JSON.") from None
    entries = content.get("entry") if isinstance(content, dict) else None
    if not isinstance(entries, list) or content.get("type") not in {"batch", "transaction"}:
        raise FhirError("The body must be a Bundle of type batch or transaction with entries.")
    return content["type"], [_request(entry) for entry in entries]


def _request(entry: Any) -> Request | None:
    said = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(said, dict):
        return None
    method, url, resource = said.get("method"), said.get("url"), entry.get("resource")
    if method == "GET" and isinstance(url, str):
        return Request(method, url, None)
    if method not in {"POST", "PUT"} or not isinstance(resource, dict):
        return None
    return Request(
        method, url if isinstance(url, str) else "", resource, str(entry.get("fullUrl", ""))
    )


def _new_ids(requests: Sequence[Request | None]) -> dict[str, str]:
    """What each `urn:uuid:` of a new resource will be called, so that others of the Bundle can refer to it."""
    return {
        each.full_url: f"{each.resource.get('resourceType')}/{uuid.uuid4()}"
        for each in requests
        if each
        and each.resource
        and each.method == "POST"
        and each.full_url.startswith("urn:uuid:")
    }


def _rewritten(value: Any, ids: Mapping[str, str]) -> Any:
    """The same JSON with references to new resources of the Bundle replaced."""
    if isinstance(value, list):
        return [_rewritten(each, ids) for each in value]
    if isinstance(value, dict):
        return {
            name: ids.get(inner, inner)
            if name == "reference" and isinstance(inner, str)
            else _rewritten(inner, ids)
            for name, inner in value.items()
        }
    return value
