"""The FHIR server without its network: a request in, a reply out. `server` puts it on a port; agents may use it as is.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir.index.schema import RecordLocked
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.record import Page
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.server import bundle
from archqa.fhir.server.capability import capability_statement
from archqa.fhir.server.exchange import process_bundle
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import build_search_url, parse_query_string, parse_search_url
from archqa.fhir.write.overlay import Overlay
from archqa.fhir.write.writer import WriteMode, Writer, WriteResult

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FhirResponse:
    """An HTTP reply: status, body (JSON text) and headers."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """The body as JSON values."""
        return json.loads(self.body)


class FhirService:
    """Answers FHIR requests from one record. `base` is the address that links begin with."""

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
        """The reply to `GET`; the URL may be relative (`Observation?patient=…`) or begin with the base."""
        return self.handle("GET", url.strip().removeprefix(self.base))

    def post(self, url: str, body: str, who: str = "") -> FhirResponse:
        """The reply to `POST`."""
        return self.handle("POST", url.strip().removeprefix(self.base), body, {"x-archqa-who": who})

    def handle(
        self, method: str, url: str, body: str = "", headers: Mapping[str, str] | None = None
    ) -> FhirResponse:
        """The reply to any request; `url` is what comes after the base. Never raises for what a request may hold."""
        kind = self.record.profile.content_type
        try:
            status, text, more = self._answer(method, url, body, headers or {})
        except FhirError as error:
            status, text, more = error.status, json.dumps(error.outcome()), {}
        except RecordLocked:
            found = operation_outcome(
                ["The record is being loaded just now. Ask again later."], "error", "transient"
            )
            status, text, more = 503, json.dumps(found), {"retry-after": "5"}
        except ArchqaError as error:
            _log.error("%s", type(error).__name__)
            found = operation_outcome(
                ["The record cannot be read. Its keeper finds more in the log."],
                "fatal",
                "exception",
            )
            status, text, more = 500, json.dumps(found), {}
        return FhirResponse(status, text, {"content-type": kind, **more})

    def _answer(
        self, method: str, url: str, body: str, headers: Mapping[str, str]
    ) -> tuple[int, str, dict[str, str]]:
        path, params = parse_search_url(url)
        if method in {"GET", "HEAD"}:
            return 200, self._read(path, params, headers), {}
        if method != "POST":
            raise FhirError("Only GET and POST are answered here.", 405, "not-supported")
        if path.endswith("_search"):
            return 200, self._search(path, [*params, *parse_query_string(body)], headers), {}
        if not path:
            return 200, self._bundle(body, headers.get("x-archqa-who", "")), {}
        return self._create(path, body, headers)

    def _read(self, path: str, params: list[tuple[str, str]], headers: Mapping[str, str]) -> str:
        parts = path.split("/")
        if path == "metadata":
            found = capability_statement(
                self.base, list(self.record.counts()), self.record.profile, self.writer.mode
            )
            return json.dumps(found)
        if len(parts) == 3 and parts[0] == "Patient" and parts[2] == "$everything":
            return self._everything(parts[1], params)
        if not path and any(name == "_getpages" for name, _ in params):
            path, params = bundle.decode_hapi_page(params)
            return self._search(path, params, headers)
        if len(parts) == 2 and parts[0] in R4_RESOURCE_TYPES and parts[1] != "_search":
            return self._one(parts[0], parts[1])
        return self._search(path, params, headers)

    def _one(self, resource_type: str, resource_id: str) -> str:
        text = self.record.text(resource_type, resource_id)
        if text is None:
            raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
        return text

    def _search(self, path: str, params: list[tuple[str, str]], headers: Mapping[str, str]) -> str:
        handling = headers.get("prefer", "").replace(" ", "").lower()
        lenient = (
            False
            if "handling=strict" in handling
            else True
            if "handling=lenient" in handling
            else None
        )
        if not path:
            raise FhirError("Name a resource type: Observation?patient=…", 400, "not-supported")
        page = self.record.search(
            build_search_url(path, bundle.decode_page_token(params)), lenient=lenient
        )
        return self._bundled(page, f"{self.base}/{build_search_url(path, params)}")

    def _bundled(self, page: Page, url: str) -> str:
        return bundle.write(page, self.base, self.record.profile, url)

    def _everything(self, patient: str, params: list[tuple[str, str]]) -> str:
        wanted = EverythingRequest.read(bundle.decode_page_token(params))
        page = self.record.everything_page(patient, wanted)
        url = f"{self.base}/{build_search_url(page.query, params)}"
        return bundle.write(page, self.base, self._readable(), url)

    def _readable(self) -> Profile:
        """The profile whose links an operation can use: hapi's stand for searches only."""
        return GCP if self.record.profile is GCP else ARCHQA

    def _create(
        self, path: str, body: str, headers: Mapping[str, str]
    ) -> tuple[int, str, dict[str, str]]:
        if path not in R4_RESOURCE_TYPES:
            raise FhirError(
                f"There is no such resource type to create.{did_you_mean(path, R4_RESOURCE_TYPES)}",
                404,
                "not-supported",
            )
        who = headers.get("x-archqa-who", "")
        written = self.writer.post(path, body, url=f"{self.base}/{path}", who=who)
        if written.stored is not None:
            location = {"location": f"{self.base}/{written.location}"}
            return written.status, json.dumps(written.stored, ensure_ascii=False), location
        return written.status, json.dumps(written.outcome()), {}

    def _bundle(self, body: str, who: str) -> str:
        """A batch or transaction: reads everywhere, loads in mode apply."""
        able = self.writer.mode is WriteMode.APPLY and isinstance(self.record, Overlay)

        def get(url: str) -> tuple[int, str]:
            reply = self.get(url)
            return reply.status, reply.body

        def note(method: str, url: str, payload: Any, status: int) -> None:
            self.writer.note(method, url, payload, WriteResult(status=status), who=who)

        overlay = self.record if able and isinstance(self.record, Overlay) else None
        return json.dumps(process_bundle(body, overlay, get, note))
