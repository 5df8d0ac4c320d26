"""The FHIR server without a network: answers requests. `application` serves it over HTTP.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.request_budget import current_budget
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.server.capability import capability_statement, largest_page
from archqa.fhir.server.preferences import preferred_return
from archqa.fhir.server.request_bundle import Writes, process_bundle
from archqa.fhir.server.searchset import decode_hapi_page, decode_page_token, write_searchset
from archqa.fhir.server.validate_operation import is_validate, validate
from archqa.fhir.server.versions import is_history, read_history, validators
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

Headers = Mapping[str, str]

_EVERYTHING_PATH = re.compile(r"Patient/(?P<patient>[^/]*)/\$everything")

_RETRY_AFTER_SECONDS = "5"
"""When to ask again for a record that is being loaded."""


@dataclass(frozen=True)
class FhirResponse:
    """An HTTP response: status, body (JSON text) and headers."""

    status: int
    body: str
    headers: Headers = field(default_factory=dict)

    def json(self) -> Any:
        """Return the body as JSON values."""
        return json.loads(self.body)


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
        return FhirResponse(response.status, response.body, response_headers)

    def _respond(
        self,
        method: str,
        url: str,
        body: str,
        headers: Headers,
    ) -> FhirResponse:
        path, params = parse_search_url(url)
        if method in {"GET", "HEAD"}:
            if path.rpartition("/")[2] == "_search":
                return _search_needs_post()
            body = self._read(path, params, headers)
            known = validators(self.record, path, headers)
            status, text = (304, "") if known.is_known else (200, body)
            return FhirResponse(status, text, known.headers)
        if method != "POST":
            raise FhirError("Only GET and POST are answered here.", 405, "not-supported")
        if path.rpartition("/")[2] == "_search":
            all_params = [*params, *parse_query_string(body)]
            searchset = self._search(path, all_params, headers)
            return FhirResponse(200, searchset)
        if is_validate(path):
            return FhirResponse(200, validate(self.record, self.writer, path, params, body))
        author = headers.get("x-archqa-who", "")
        if not path:
            bundle = self._process_bundle(body, author, headers)
            return FhirResponse(200, bundle)
        return self._create(path, body, headers)

    def _read(self, path: str, params: Params, headers: Headers) -> str:
        if path == "metadata":
            return self._metadata()
        everything = _EVERYTHING_PATH.fullmatch(path)
        if everything:
            return self._everything(everything["patient"], params)
        if not path and "_getpages" in dict(params):
            path, params = decode_hapi_page(params)
            return self._search(path, params, headers)
        if is_validate(path):
            return validate(self.record, self.writer, path, params, None)
        if is_history(path):
            return self._history(path, params)
        resource_type, slash, resource_id = path.partition("/")
        is_id = slash and "/" not in resource_id
        if is_id and resource_type in R4_RESOURCE_TYPES:
            return self._resource_text(resource_type, resource_id)
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

    def _history(self, path: str, params: Params) -> str:
        max_count = largest_page(self.record.profile)
        links = self._link_profile()
        return read_history(self.record, path, params, self.base, links, max_count)

    def _link_profile(self) -> Profile:
        """Return a profile whose links an operation can use: hapi has them for searches only."""
        return GCP if self.record.profile is GCP else ARCHQA

    def _create(self, path: str, body: str, headers: Headers) -> FhirResponse:
        if path not in R4_RESOURCE_TYPES:
            hint = did_you_mean(path, R4_RESOURCE_TYPES)
            message = f"There is no such resource type to create.{hint}"
            raise FhirError(message, 404, "not-supported")
        preference = preferred_return(headers)
        result = self.writer.post(
            path,
            body,
            url=f"{self.base}/{path}",
            who=headers.get("x-archqa-who", ""),
            if_none_exist=headers.get("if-none-exist"),
        )
        return FhirResponse(*reply_to_create(result, self.record, self.base, preference))

    def _process_bundle(self, body: str, author: str, headers: Headers) -> str:
        """Process a batch or transaction: reads in every mode, writes in mode apply."""

        def get(url: str, conditions: Headers) -> tuple[int, str, Headers]:
            response = self.handle("GET", url.strip().removeprefix(self.base), "", conditions)
            return response.status, response.body, response.headers

        def log(method: str, url: str, payload: Any, result: WriteResult) -> None:
            self.writer.log_write(method, url, payload, result, who=author)

        overlay = None
        if self.writer.mode is WriteMode.APPLY and isinstance(self.record, Overlay):
            overlay = self.record
        preference = preferred_return(headers)
        writes = Writes(overlay, log, self.writer.record_findings, preference)
        return process_bundle(body, get, writes)


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
