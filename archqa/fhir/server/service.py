"""The FHIR server without a network: answers requests. `application` serves it over HTTP.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
from dataclasses import replace

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.record import FhirError
from archqa.fhir.search.result_parameters import is_our_version, split_media_type
from archqa.fhir.server.context import FhirResponse, Headers, RequestContext, error_response
from archqa.fhir.server.negotiation import check_formats, reply_type
from archqa.fhir.server.routes import MethodNotAllowed, accepted_bodies, find_handler
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.references import parse_path
from archqa.fhir.values.urls import parse_search_url
from archqa.fhir.write.writer import Writer

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
        return replace(response, headers={"content-type": content_type, **response.headers})

    def refuse_body(self, method: str, url: str, headers: Headers) -> FhirResponse | None:
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
        is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        if path.action and is_empty:
            return None
        media_type, version = split_media_type(headers.get("content-type", ""))
        accepted = accepted_bodies(path)
        if media_type in accepted and is_our_version(version):
            return None
        text = f"Send the body with Content-Type: {' or '.join(accepted)}."
        return error_response(415, "not-supported", text)
