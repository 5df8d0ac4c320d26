"""The FHIR server without a network: answers requests. `application` serves it over HTTP.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.request_budget import current_budget, forbid_streaming
from archqa.fhir.search.summaries import part_of_resource
from archqa.fhir.search.unsupported import Ignored, without_ignored
from archqa.fhir.server.capability import capability_statement
from archqa.fhir.server.handling import (
    GENERAL_PARAMETERS,
    METADATA_PARAMETERS,
    READ_PARAMETERS,
    all_named,
    preferred_handling,
    supported_parameters,
    warning_header,
)
from archqa.fhir.server.metadata_parameters import parse_subset
from archqa.fhir.server.methods import allowed_methods, method_not_allowed
from archqa.fhir.server.negotiation import check_formats, reply_type
from archqa.fhir.server.operations import call_of, is_operation
from archqa.fhir.server.preferences import preferred_return
from archqa.fhir.server.read_parameters import requested_subset
from archqa.fhir.server.request_bundle import Writes, process_bundle
from archqa.fhir.server.response import FhirResponse, Headers
from archqa.fhir.server.searchset import (
    decode_hapi_page,
    decode_page_token,
    write_searchset,
    write_searchset_chunks,
)
from archqa.fhir.server.versions import is_vread, read_version, validators
from archqa.fhir.server.write_replies import reply_to_create
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import (
    Params,
    build_search_url,
    parse_query_string,
    parse_search_url,
    with_count,
)
from archqa.fhir.write.overlay import Overlay
from archqa.fhir.write.writer import WriteMode, Writer, WriteResult

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

    def get(self, url: str) -> FhirResponse:
        """Answer `GET`; the URL is relative (`Observation?patient=…`) or begins with the base."""
        return self.handle("GET", url.strip().removeprefix(self.base))

    def post(self, url: str, body: str, who: str = "") -> FhirResponse:
        """Answer `POST`; `who` is the name of the author for the audit log."""
        return self.handle(
            "POST",
            url.strip().removeprefix(self.base),
            body,
            {"x-archqa-who": who},
        )

    def handle(
        self, method: str, url: str, body: str = "", headers: Headers | None = None
    ) -> FhirResponse:
        """Answer any request; `url` is relative to the base.

        Never raises for an invalid request.
        """
        headers = headers or {}
        content_type = self.record.profile.content_type
        try:
            content_type = reply_type(url, headers, self.record.profile)
            response = self._respond(method, url, body, headers)
        except FhirError as error:
            response = FhirResponse(error.status, json.dumps(error.outcome()))
        except RecordLocked:
            message = "The record is being loaded just now. Ask again later."
            outcome = operation_outcome([message], "error", "transient")
            retry_after = {"retry-after": _RETRY_AFTER_SECONDS}
            response = FhirResponse(503, json.dumps(outcome), retry_after)
        except ArchqaError as error:
            _log.error("%s", type(error).__name__)
            message = "The record cannot be read. Its owner finds more in the log."
            outcome = operation_outcome([message], "fatal", "exception")
            response = FhirResponse(500, json.dumps(outcome))
        return replace(response, headers={"content-type": content_type, **response.headers})

    def _respond(
        self,
        method: str,
        url: str,
        body: str,
        headers: Headers,
    ) -> FhirResponse:
        path, params = parse_search_url(url)
        methods = allowed_methods(path)
        if method not in methods:
            return method_not_allowed(methods)
        if method not in {"GET", "HEAD", "POST"} and not is_operation(path):
            raise FhirError("There is nothing at this URL.", 404, "not-supported")
        check_formats(params)
        if is_operation(path):
            operation, call = call_of(method, path, params, body, headers)
            return operation.handler(self, call)
        if method in {"GET", "HEAD"}:
            return self._read(path, params, headers)
        if path.rpartition("/")[2] == "_search":
            form = parse_query_string(body)
            check_formats(form)
            return self._search(path, [*params, *form], headers)
        self._supported(params, GENERAL_PARAMETERS, "A write", headers)
        if not path:
            return FhirResponse(200, self._process_bundle(body, headers))
        return self._create(path, body, headers)

    def _read(self, path: str, params: Params, headers: Headers) -> FhirResponse:
        if path == "metadata":
            return self._metadata(params, headers)
        if not path and "_getpages" in dict(params):
            path, params = decode_hapi_page(params)
            return self._search(path, params, headers)
        if is_vread(path):
            return self._versioned(path, read_version(self.record, path, params), headers)
        if "_history" in path.split("/"):
            message = "A history is not supported; Type/id/_history/version reads a version."
            raise FhirError(message, 404, "not-supported")
        resource_type, slash, resource_id = path.partition("/")
        is_id = slash and "/" not in resource_id
        if is_id and resource_type in R4_RESOURCE_TYPES:
            supported, ignored = self._supported(params, READ_PARAMETERS, "A read", headers)
            subset = requested_subset(supported, resource_type, self.record.profile, ignored)
            text = self._resource_text(resource_type, resource_id)
            part = part_of_resource(text, resource_type, subset)
            return self._versioned(path, part, headers, warning_header(all_named(ignored)))
        return self._search(path, params, headers)

    def _versioned(
        self, path: str, text: str, headers: Headers, more_headers: Headers | None = None
    ) -> FhirResponse:
        """Return a text with the tag and date of its version, or 304 if the client has it."""
        known = validators(self.record, path, headers)
        reply_headers = {**known.headers, **(more_headers or {})}
        if known.is_known:
            return FhirResponse(304, "", reply_headers)
        return FhirResponse(200, text, reply_headers)

    def _supported(
        self, params: Params, known: Iterable[str], subject: str, headers: Headers
    ) -> tuple[Params, Ignored]:
        return supported_parameters(params, known, subject, self.record.profile, headers)

    def _metadata(self, params: Params, headers: Headers) -> FhirResponse:
        supported, ignored = self._supported(
            params, METADATA_PARAMETERS, "CapabilityStatement", headers
        )
        subset = parse_subset(supported, self.record.profile, ignored)
        types = list(self.record.counts())
        profile = self.record.profile
        statement = capability_statement(self.base, types, profile, self.writer.mode)
        text = part_of_resource(json.dumps(statement), "CapabilityStatement", subset)
        budget = current_budget()
        if budget is not None:
            budget.check_room()
            budget.spend_text(text)
        return FhirResponse(200, text, warning_header(all_named(ignored)))

    def _resource_text(self, resource_type: str, resource_id: str) -> str:
        text = self.record.text(resource_type, resource_id)
        if text is None:
            raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
        return text

    def _search(
        self,
        path: str,
        params: Params,
        headers: Headers,
    ) -> FhirResponse:
        if path in {"", "_search"}:
            raise FhirError("Name a resource type: Observation?patient=…", 400, "not-supported")
        query = build_search_url(path, decode_page_token(params))
        page = self.record.search(query, lenient=preferred_handling(headers))
        linked = without_ignored(params, page.ignored)
        self_url = f"{self.base}/{build_search_url(path, with_count(linked, page.count))}"
        reply_headers = warning_header(page.warned)
        if page.later is not None:
            chunks = write_searchset_chunks(page, self.base, self.record.profile, self_url)
            return FhirResponse(200, "", reply_headers, chunks=chunks)
        text = write_searchset(page, self.base, self.record.profile, self_url)
        return FhirResponse(200, text, reply_headers)

    def _create(self, path: str, body: str, headers: Headers) -> FhirResponse:
        if path not in R4_RESOURCE_TYPES:
            hint = did_you_mean(path, R4_RESOURCE_TYPES)
            message = f"There is no such resource type to create.{hint}"
            raise FhirError(message, 404, "not-supported")
        if "if-none-exist" in headers:
            raise FhirError(
                "A conditional create (If-None-Exist) is not supported.", 400, "not-supported"
            )
        preference = preferred_return(headers)
        url = f"{self.base}/{path}"
        result = self.writer.post(path, body, url=url, who=headers.get("x-archqa-who", ""))
        return FhirResponse(*reply_to_create(result, self.record, self.base, preference))

    def _process_bundle(self, body: str, headers: Headers) -> str:
        """Process a batch or transaction: reads in every mode, writes in mode apply."""
        forbid_streaming()
        author = headers.get("x-archqa-who", "")
        preference = {"prefer": headers.get("prefer", "")}

        def get(url: str, conditions: Headers) -> tuple[int, str, Headers]:
            relative_url = url.strip().removeprefix(self.base)
            response = self.handle("GET", relative_url, "", {**preference, **conditions})
            return response.status, response.body, response.headers

        def log(method: str, url: str, payload: Any, result: WriteResult) -> None:
            self.writer.log_write(method, url, payload, result, who=author)

        overlay = None
        if self.writer.mode is WriteMode.APPLY and isinstance(self.record, Overlay):
            overlay = self.record
        return_preference = preferred_return(headers)
        writes = Writes(overlay, log, self.writer.record_findings, return_preference)
        return process_bundle(body, get, writes)
