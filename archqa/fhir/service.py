"""The FHIR server without its network: a request in, a reply out. `server` puts it on a port; agents may use it as is.

Source: hl7.org/fhir/R4/http.html.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archqa.errors import ArchqaError
from archqa.fhir import bundle
from archqa.fhir.base import Page
from archqa.fhir.capability import statement
from archqa.fhir.local import LocalRecord
from archqa.fhir.outcome import FhirError, outcome
from archqa.fhir.overlay import Overlay
from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.resource_types import R4, did_you_mean
from archqa.fhir.spans import parse
from archqa.fhir.urls import pairs, put_together, take_apart
from archqa.fhir.writing import Mode, Writer

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reply:
    """An HTTP reply: status, body (JSON text) and headers."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """The body as JSON values."""
        return json.loads(self.body)


class Service:
    """Answers FHIR requests from one record. `base` is the address that links begin with."""

    def __init__(
        self, record: LocalRecord, base: str = "http://localhost:8080/fhir", writer: Writer | None = None
    ) -> None:
        self.record = record
        self.base = base.rstrip("/")
        self.writer = writer or Writer(record)

    def get(self, url: str) -> Reply:
        """The reply to `GET`; the URL may be relative (`Observation?patient=…`) or begin with the base."""
        return self.handle("GET", url.strip().removeprefix(self.base))

    def post(self, url: str, body: str, who: str = "") -> Reply:
        """The reply to `POST`."""
        return self.handle("POST", url.strip().removeprefix(self.base), body, {"x-archqa-who": who})

    def handle(self, method: str, url: str, body: str = "", headers: Mapping[str, str] | None = None) -> Reply:
        """The reply to any request; `url` is what comes after the base. Never raises for what a request may hold."""
        kind = self.record.profile.content_type
        try:
            status, text, more = self._answer(method, url, body, headers or {})
        except FhirError as error:
            status, text, more = error.status, json.dumps(error.outcome()), {}
        except ArchqaError as error:
            _log.error("%s", type(error).__name__)
            found = outcome(["The record cannot be read. Its keeper finds more in the log."], "fatal", "exception")
            status, text, more = 500, json.dumps(found), {}
        return Reply(status, text, {"content-type": kind, **more})

    def _answer(self, method: str, url: str, body: str, headers: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
        path, params = take_apart(url)
        if method in {"GET", "HEAD"}:
            return 200, self._read(path, params, headers), {}
        if method != "POST":
            raise FhirError("Only GET and POST are answered here.", 405, "not-supported")
        if path.endswith("_search"):
            return 200, self._search(path, [*params, *pairs(body)], headers), {}
        if not path:
            return 200, self._bundle(body), {}
        return self._create(path, body, headers)

    def _read(self, path: str, params: list[tuple[str, str]], headers: Mapping[str, str]) -> str:
        parts = path.split("/")
        if path == "metadata":
            found = statement(self.base, list(self.record.counts()), self.record.profile, self.writer.mode)
            return json.dumps(found)
        if len(parts) == 3 and parts[0] == "Patient" and parts[2] == "$everything":
            return self._everything(parts[1], params)
        if not path and any(name == "_getpages" for name, _ in params):
            path, params = bundle.page_query(params)
            return self._search(path, params, headers)
        if len(parts) == 2 and parts[0] in R4 and parts[1] != "_search":
            return self._one(parts[0], parts[1])
        return self._search(path, params, headers)

    def _one(self, resource_type: str, resource_id: str) -> str:
        text = self.record.text(resource_type, resource_id)
        if text is None:
            raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
        return text

    def _search(self, path: str, params: list[tuple[str, str]], headers: Mapping[str, str]) -> str:
        handling = headers.get("prefer", "").replace(" ", "").lower()
        lenient = False if "handling=strict" in handling else True if "handling=lenient" in handling else None
        if not path:
            raise FhirError("Name a resource type: Observation?patient=…", 400, "not-supported")
        page = self.record.search(put_together(path, bundle.without_token(params)), lenient=lenient)
        return self._bundled(page, f"{self.base}/{put_together(path, params)}")

    def _bundled(self, page: Page, url: str) -> str:
        return bundle.write(page, self.base, self.record.profile, url)

    def _everything(self, patient: str, params: list[tuple[str, str]]) -> str:
        given = dict(bundle.without_token(params))
        numbers = [given.get("_count", "1000"), given.get("_offset", "0")]
        if not all(each.isdecimal() and len(each) < 10 for each in numbers) or numbers[0] == "0":
            raise FhirError("_count and _offset must be whole numbers.")
        types = tuple(each for each in given.get("_type", "").split(",") if each)
        unknown = [each for each in types if each not in R4]
        if unknown:
            raise FhirError(f"_type names a type FHIR does not have.{did_you_mean(unknown[0], R4)}")
        page = self.record.everything_page(patient, int(numbers[0]), int(numbers[1]), types)
        url = f"{self.base}/{put_together(page.query, params)}"
        return bundle.write(page, self.base, self._readable(), url)

    def _readable(self) -> Profile:
        """The profile whose links an operation can use: hapi's stand for searches only."""
        return GCP if self.record.profile is GCP else ARCHQA

    def _create(self, path: str, body: str, headers: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
        if path not in R4:
            raise FhirError(f"There is no such resource type to create.{did_you_mean(path, R4)}", 404, "not-supported")
        who = headers.get("x-archqa-who", "")
        written = self.writer.post(path, body, url=f"{self.base}/{path}", who=who)
        if written.stored is not None:
            location = {"location": f"{self.base}/{written.location}"}
            return written.status, json.dumps(written.stored, ensure_ascii=False), location
        return written.status, json.dumps(written.outcome()), {}

    def _bundle(self, body: str) -> str:
        """A batch or transaction that loads resources: `POST Type` and `PUT Type/id` of what is not there yet."""
        if self.writer.mode is not Mode.APPLY or not isinstance(self.record, Overlay):
            raise FhirError("Bundles are loaded in mode apply only.", 403, "forbidden")
        try:
            content = parse(body)
        except (ValueError, RecursionError):
            raise FhirError("The body is not JSON.") from None
        entries = content.get("entry") if isinstance(content, dict) else None
        if not isinstance(entries, list) or content.get("type") not in {"batch", "transaction"}:
            raise FhirError("The body must be a Bundle of type batch or transaction with entries.")
        return json.dumps(_load(self.record, entries, content["type"]))


def _load(record: Overlay, entries: list[Any], kind: str) -> dict[str, Any]:
    responses = [_load_one(record, entry) for entry in entries]
    return {"resourceType": "Bundle", "type": f"{kind}-response", "entry": [{"response": each} for each in responses]}


def _load_one(record: Overlay, entry: Any) -> dict[str, Any]:
    resource = entry.get("resource") if isinstance(entry, dict) else None
    request = entry.get("request") if isinstance(entry, dict) else None
    method = request.get("method") if isinstance(request, dict) else None
    try:
        if not isinstance(resource, dict) or method not in {"POST", "PUT"}:
            raise FhirError("An entry needs a resource and a request POST or PUT.")
        if method == "PUT":
            record.put(json.dumps(resource, ensure_ascii=False), resource)
        else:
            resource = record.create(resource)
    except FhirError as error:
        return {"status": str(error.status), "outcome": error.outcome()}
    return {"status": "201", "location": f"{resource['resourceType']}/{resource['id']}/_history/1"}
