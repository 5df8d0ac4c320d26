"""The FHIR server without a network: answers requests. `application` serves it over HTTP.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
from dataclasses import replace
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.request_budget import current_budget, forbid_streaming
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.server.capability import capability_statement, largest_page
from archqa.fhir.server.largest_page import with_cap_said
from archqa.fhir.server.methods import allowed_methods, method_not_allowed
from archqa.fhir.server.operations import OperationCall, call_of, is_operation
from archqa.fhir.server.request_bundle import process_bundle
from archqa.fhir.server.response import FhirResponse, Headers
from archqa.fhir.server.searchset import (
    decode_hapi_page,
    decode_page_token,
    write_searchset,
    write_searchset_chunks,
)
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
        try:
            response = self._respond(method, url, body, headers or {})
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
        response_headers = {"content-type": self.record.profile.content_type, **response.headers}
        return replace(response, headers=response_headers)

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
        if is_operation(path):
            operation, call = call_of(method, path, params, body, headers)
            return operation.handler(self, call)
        if method in {"GET", "HEAD"}:
            return self._read(path, params, headers)
        if path.rpartition("/")[2] == "_search":
            all_params = [*params, *parse_query_string(body)]
            return self._search(path, all_params, headers)
        author = headers.get("x-archqa-who", "")
        if not path:
            bundle = self._process_bundle(body, author)
            return FhirResponse(200, bundle)
        return self._create(path, body, author)

    def _read(self, path: str, params: Params, headers: Headers) -> FhirResponse:
        if path == "metadata":
            return FhirResponse(200, self._metadata())
        if not path and "_getpages" in dict(params):
            path, params = decode_hapi_page(params)
            return self._search(path, params, headers)
        resource_type, slash, resource_id = path.partition("/")
        is_id = slash and "/" not in resource_id
        if is_id and resource_type in R4_RESOURCE_TYPES:
            return FhirResponse(200, self._resource_text(resource_type, resource_id))
        return self._search(path, params, headers)

    def _metadata(self) -> str:
        types = list(self.record.counts())
        profile = self.record.profile
        statement = capability_statement(self.base, types, profile, self.writer.mode)
        text = json.dumps(statement)
        budget = current_budget()
        if budget is not None:
            budget.check_room()
            budget.spend_text(text)
        return text

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
        page = self.record.search(query, lenient=_preferred_handling(headers))
        self_url = f"{self.base}/{build_search_url(path, with_count(params, page.count))}"
        if page.later is not None:
            chunks = write_searchset_chunks(page, self.base, self.record.profile, self_url)
            return FhirResponse(200, "", chunks=chunks)
        return FhirResponse(200, write_searchset(page, self.base, self.record.profile, self_url))

    def everything(self, call: OperationCall) -> FhirResponse:
        """Answer `Patient/[id]/$everything`. Raises `FhirError`."""
        request = EverythingRequest.from_params(decode_page_token(call.params))
        asked, largest = request.count, largest_page(self.record.profile)
        request = replace(request, count=min(asked, largest))
        page = self.record.everything_page(call.resource_id, request)
        page = with_cap_said(page, asked, largest)
        query = build_search_url(page.query, with_count(call.params, page.count))
        self_url = f"{self.base}/{query}"
        return FhirResponse(200, write_searchset(page, self.base, self._link_profile(), self_url))

    def _link_profile(self) -> Profile:
        """Return a profile whose links an operation can use: hapi has them for searches only."""
        return GCP if self.record.profile is GCP else ARCHQA

    def _create(self, path: str, body: str, author: str) -> FhirResponse:
        if path not in R4_RESOURCE_TYPES:
            hint = did_you_mean(path, R4_RESOURCE_TYPES)
            message = f"There is no such resource type to create.{hint}"
            raise FhirError(message, 404, "not-supported")
        result = self.writer.post(
            path,
            body,
            url=f"{self.base}/{path}",
            who=author,
        )
        if result.stored is None:
            return FhirResponse(result.status, json.dumps(result.outcome()))
        location = {"location": f"{self.base}/{result.location}"}
        return FhirResponse(result.status, json.dumps(result.stored, ensure_ascii=False), location)

    def _process_bundle(self, body: str, author: str) -> str:
        """Process a batch or transaction: reads in every mode, writes in mode apply."""
        forbid_streaming()

        def get(url: str) -> tuple[int, str]:
            response = self.get(url)
            return response.status, response.body

        def log_write(
            method: str,
            url: str,
            payload: Any,
            status: int,
        ) -> None:
            result = WriteResult(status=status)
            self.writer.log_write(method, url, payload, result, who=author)

        overlay = None
        if self.writer.mode is WriteMode.APPLY and isinstance(self.record, Overlay):
            overlay = self.record
        return process_bundle(body, overlay, get, log_write)


def _preferred_handling(headers: Headers) -> bool | None:
    """Return whether the client asks for lenient handling; None if it does not say."""
    preference = headers.get("prefer", "").replace(" ", "").lower()
    if "handling=strict" in preference:
        return False
    if "handling=lenient" in preference:
        return True
    return None
