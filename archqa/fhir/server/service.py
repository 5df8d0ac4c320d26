"""The FHIR server without a network: answers requests. `application` serves it over HTTP.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
import re
from dataclasses import replace
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.request_budget import current_budget
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.server.capability import capability_statement, largest_page
from archqa.fhir.server.export_routes import is_export_path, respond_to_export
from archqa.fhir.server.exports import Exports
from archqa.fhir.server.request_bundle import process_bundle
from archqa.fhir.server.responses import FhirResponse, Headers
from archqa.fhir.server.searchset import decode_hapi_page, decode_page_token, write_searchset
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

__all__ = ["FhirResponse", "FhirService", "Headers"]

_log = logging.getLogger(__name__)

_EVERYTHING_PATH = re.compile(r"Patient/(?P<patient>[^/]*)/\$everything")

_RETRY_AFTER_SECONDS = "5"
"""When to ask again for a record that is being loaded."""


class FhirService:
    """Answer FHIR requests from one record. `base` is the address that links begin with.

    `exports` has the bulk exports (default: new ones in a temporary folder); manifests of them say
    that their files need a token if `needs_token`.
    """

    def __init__(
        self,
        record: LocalRecord,
        base: str = "http://localhost:8080/fhir",
        writer: Writer | None = None,
        exports: Exports | None = None,
        *,
        needs_token: bool = False,
    ) -> None:
        self.record = record
        self.base = base.rstrip("/")
        self.writer = writer or Writer(record)
        self.exports = exports or Exports(record)
        self.needs_token = needs_token

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
        if is_export_path(path):
            return self._export(method, path, params, body, headers)
        if method in {"GET", "HEAD"}:
            if path.rpartition("/")[2] == "_search":
                return _search_needs_post()
            body = self._read(path, params, headers)
            return FhirResponse(200, body)
        if method != "POST":
            raise FhirError("Only GET and POST are answered here.", 405, "not-supported")
        if path.rpartition("/")[2] == "_search":
            all_params = [*params, *parse_query_string(body)]
            searchset = self._search(path, all_params, headers)
            return FhirResponse(200, searchset)
        author = headers.get("x-archqa-who", "")
        if not path:
            bundle = self._process_bundle(body, author)
            return FhirResponse(200, bundle)
        return self._create(path, body, author)

    def _read(self, path: str, params: Params, headers: Headers) -> str:
        if path == "metadata":
            return self._metadata()
        everything = _EVERYTHING_PATH.fullmatch(path)
        if everything:
            return self._everything(everything["patient"], params)
        if not path and "_getpages" in dict(params):
            path, params = decode_hapi_page(params)
            return self._search(path, params, headers)
        resource_type, slash, resource_id = path.partition("/")
        is_id = slash and "/" not in resource_id
        if is_id and resource_type in R4_RESOURCE_TYPES:
            return self._resource_text(resource_type, resource_id)
        return self._search(path, params, headers)

    def _export(
        self, method: str, path: str, params: Params, body: str, headers: Headers
    ) -> FhirResponse:
        return respond_to_export(
            self.exports,
            self.base,
            method,
            path,
            params,
            body,
            headers,
            needs_token=self.needs_token,
        )

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
    ) -> str:
        if path in {"", "_search"}:
            raise FhirError("Name a resource type: Observation?patient=…", 400, "not-supported")
        query = build_search_url(path, decode_page_token(params))
        page = self.record.search(query, lenient=_preferred_handling(headers))
        self_url = f"{self.base}/{build_search_url(path, with_count(params, page.count))}"
        return write_searchset(page, self.base, self.record.profile, self_url)

    def _everything(self, patient: str, params: Params) -> str:
        request = EverythingRequest.from_params(decode_page_token(params))
        request = replace(request, count=min(request.count, largest_page(self.record.profile)))
        page = self.record.everything_page(patient, request)
        self_url = f"{self.base}/{build_search_url(page.query, with_count(params, page.count))}"
        return write_searchset(page, self.base, self._link_profile(), self_url)

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

        def get(url: str) -> tuple[int, str]:
            response = self.get(url)
            if response.body:
                return response.status, response.body
            outcome = operation_outcome(["Exports are not for Bundles."], "error", "not-supported")
            return 400, json.dumps(outcome)

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


def _search_needs_post() -> FhirResponse:
    error = FhirError("_search is for POST; GET searches as Type?name=value.", 405, "not-supported")
    return FhirResponse(405, json.dumps(error.outcome()), {"allow": "POST"})


def _preferred_handling(headers: Headers) -> bool | None:
    """Return whether the client asks for lenient handling; None if it does not say."""
    preference = headers.get("prefer", "").replace(" ", "").lower()
    if "handling=strict" in preference:
        return False
    if "handling=lenient" in preference:
        return True
    return None
