"""The FHIR server without a network: which handler answers which URL and method.

A new interaction is a line of `ROUTES`. `application` serves it over HTTP. Sources:
hl7.org/fhir/R4/http.html, operations.html#executing.
"""

import json
import logging
from dataclasses import replace

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.record import FhirError
from archqa.fhir.search.compartments import search_within
from archqa.fhir.search.result_parameters import is_our_version, split_media_type
from archqa.fhir.server.context import (
    FhirResponse,
    Handler,
    Headers,
    RequestContext,
    error_response,
)
from archqa.fhir.server.negotiation import check_formats, reply_type
from archqa.fhir.server.reading import read, read_metadata, read_version
from archqa.fhir.server.searching import everything, read_page, search
from archqa.fhir.server.writes import create, process_bundle
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.references import RequestPath, parse_path
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import parse_search_url
from archqa.fhir.write.writer import Writer

ROUTES: dict[str, dict[str, Handler]] = {
    "": {"GET": read_page, "POST": process_bundle},
    "metadata": {"GET": read_metadata},
    "_search": {"POST": search},
    "[type]": {"GET": search, "POST": create},
    "[type]/_search": {"POST": search},
    "[type]/[id]": {"GET": read},
    "[type]/[id]/_history/[version]": {"GET": read_version},
    "[type]/[id]/[type]": {"GET": search},
    "[type]/[id]/[type]/_search": {"POST": search},
    "Encounter/[id]/$everything": {"GET": everything, "POST": everything},
    "Patient/[id]/$everything": {"GET": everything, "POST": everything},
}
"""The handlers by the shape of a path below the base and the method; `HEAD` is answered as `GET`."""

_WRITE_TYPES = ("application/fhir+json", "application/json")
_FORM_TYPES = ("application/x-www-form-urlencoded",)


class MethodNotAllowed(Exception):
    """A URL does not answer the method. `allowed` are those that it answers."""

    def __init__(self, allowed: list[str]) -> None:
        self.allowed = allowed
        super().__init__(f"This URL answers {', '.join(allowed)}.")


def find_handler(method: str, path: RequestPath) -> Handler:
    """Return what answers a method of a path.

    Raises `MethodNotAllowed`, and `FhirError` (404) for a path that is no endpoint.
    """
    # The path with placeholders for what differs: `[type]/[id]`.
    is_type = path.type in R4_RESOURCE_TYPES and not path.is_operation
    parts = ["[type]" if is_type else path.type]
    if path.id:
        parts.append(path.id if path.id == "_history" else "[id]")
    if path.version:
        parts.append("_history/[version]")
    elif path.tail:
        parts.append("[type]" if path.tail in R4_RESOURCE_TYPES else path.tail)
    handlers = ROUTES.get("/".join(part for part in (*parts, path.action) if part))
    if handlers is None:
        raise _no_endpoint(path)
    handler = handlers.get("GET" if method == "HEAD" else method)
    if handler is None:
        allowed = list(handlers)
        if "GET" in handlers:
            allowed.insert(1, "HEAD")
        raise MethodNotAllowed(allowed)
    return handler


def accepted_bodies(path: RequestPath) -> tuple[str, ...]:
    """Return the media types that a POST to a path may have.

    A browser sends `text/plain` and forms to any server for any site without asking: as writes they
    are refused. Operations and searches read: a form is as harmless as the same in a URL.
    """
    if path.action == "_search":
        return _FORM_TYPES
    return (*_WRITE_TYPES, *_FORM_TYPES) if path.is_operation else _WRITE_TYPES


def _no_endpoint(path: RequestPath) -> FhirError:
    """Return the error that says why there is nothing at a path.

    R4's page of operations names no status; http.html has 404 for what is no endpoint.
    """
    if path.is_operation:
        name = path.action.removeprefix("$")
        urls: dict[str, list[str]] = {}
        for shape in ROUTES:
            _, dollar, operation = shape.partition("$")
            if dollar:
                urls.setdefault(operation, []).append(shape)
        if name in urls:
            supported = ", ".join(urls[name])
            problem = f"The operation ${name} is not supported here."
        else:
            supported = ", ".join(f"${known}" for known in sorted(urls))
            quoted = quotable(name)
            dollar = "$" if quoted == name else ""
            hint = did_you_mean(name, frozenset(urls))
            problem = f"The operation {dollar}{quoted} is not supported.{hint}"
        return FhirError(f"{problem} Supported: {supported}.", 404, "not-supported")
    is_type = path.type in R4_RESOURCE_TYPES
    if path.type == "_history" or (is_type and "_history" in str(path).split("/")):
        return FhirError(
            "A history is not supported; Type/id/_history/version reads a version.",
            404,
            "not-supported",
        )
    try:
        search_within(path)
    except FhirError as error:
        return error
    hint = did_you_mean(path.type, R4_RESOURCE_TYPES)
    problem = f"There is no resource type {quotable(path.type)}."
    return FhirError(f"{problem}{hint}", 404, "not-supported")


_log = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = "5"
"""When to ask again for a record that is being loaded."""


class FhirService:
    """Answer FHIR requests from one record. `base` is the address that links begin with."""

    def __init__(
        self,
        record: LocalRecord,
        base: str = "http://localhost:8080/fhir",
        writer: Writer | None = None,
    ) -> None:
        self.record = record
        self.base = base.rstrip("/")
        self.writer = writer or Writer(record)

    def get(self, url: str, headers: Headers | None = None) -> FhirResponse:
        """Answer `GET`; the URL is relative (`Observation?patient=…`) or begins with the base."""
        return self.handle(
            "GET",
            url.strip().removeprefix(self.base),
            "",
            headers,
        )

    def post(self, url: str, body: str, who: str = "") -> FhirResponse:
        """Answer `POST`; `who` is the name of the author for the audit log."""
        return self.handle(
            "POST",
            url.strip().removeprefix(self.base),
            body,
            {"x-archqa-who": who},
        )

    def handle(
        self,
        method: str,
        url: str,
        body: str = "",
        headers: Headers | None = None,
    ) -> FhirResponse:
        """Answer any request; `url` is relative to the base.

        Never raises for an invalid request.
        """
        headers = headers or {}
        content_type = self.record.profile.content_type
        try:
            path, params = parse_search_url(url)
            content_type = reply_type(params, headers, self.record.profile)
            request_path = parse_path(path)
            handler = find_handler(method, request_path)
            check_formats(params)
            context = RequestContext(
                record=self.record,
                writer=self.writer,
                base=self.base,
                answer_get=self.get,
                path=request_path,
                params=params,
                body=body,
                headers=headers,
            )
            response = handler(context)
        except FhirError as error:
            response = FhirResponse(error.status, json.dumps(error.outcome()))
        except MethodNotAllowed as error:
            allow = {"allow": ", ".join(error.allowed)}
            response = error_response(
                405,
                "not-supported",
                str(error),
                allow,
            )
        except RecordLocked:
            message = "The record is being loaded just now. Ask again later."
            retry_after = {"retry-after": _RETRY_AFTER_SECONDS}
            response = error_response(
                503,
                "transient",
                message,
                retry_after,
            )
        except ArchqaError as error:
            _log.error("%s", type(error).__name__)
            message = "The record cannot be read. Its owner finds more in the log."
            response = error_response(500, "exception", message)
        return replace(
            response, headers={"content-type": content_type, **response.headers}
        )

    def refuse_body(
        self, method: str, url: str, headers: Headers
    ) -> FhirResponse | None:
        """Return why the body of a request cannot be taken; None if it can, or there is none.

        Known before the body is read. Source: hl7.org/fhir/R4/http.html#mime-type.
        """
        if method != "POST":
            return None
        try:
            path = parse_path(parse_search_url(url)[0])
            find_handler(method, path)
        except (FhirError, MethodNotAllowed):
            return None  # It is refused whatever it sends.
        is_empty = (
            headers.get("content-length", "0") == "0"
            and "transfer-encoding" not in headers
        )
        if path.action and is_empty:
            return None
        media_type, version = split_media_type(headers.get("content-type", ""))
        accepted = accepted_bodies(path)
        if media_type in accepted and is_our_version(version):
            return None
        return error_response(
            415,
            "not-supported",
            f"Send the body with Content-Type: {' or '.join(accepted)}.",
        )
