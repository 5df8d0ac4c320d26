"""One task's access to the record: its gateway, its mode of writing, and the checks of every write.

read-only  refuses every write
record     checks only that the payload is JSON and stores nothing, as the benchmark does
validate   checks everything, stores nothing
apply      stores: in memory above a store, really on a server
"""

import json
import re
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from archqa.agents.agent import ConfirmWrite
from archqa.errors import (
    ArchqaError,
    CallerError,
    Redirected,
    ServerUnavailable,
    Unusable,
)
from archqa.fhir import (
    AuditLog,
    FhirClient,
    FhirError,
    FhirService,
    Overlay,
    Store,
    WriteMode,
    Writer,
)
from archqa.fhir.record import Record, Resource
from archqa.fhir.write.writer import WriteResult
from archqa.safety.text import json_without_surrogates
from archqa.tasks.medagentbench.settings import PayloadFormat
from archqa.tasks.medagentbench.write_checks import (
    TaskText,
    WriteContext,
    objections,
    subject_patient_id,
)

FHIR_BASE_URL = "http://localhost:8080/fhir/"
"""The address of the record that agents are told, with its trailing slash."""

_QUOTED_URL_CHARACTERS = 40
_SEARCH_SECONDS = 30.0
"""Time limit of one search in a store."""

_PAUSE_SECONDS = 5.0
"""Time for which a server that failed every retry is not called again.

Without this pause, a run of 300 tasks would wait for every request.
"""

_PAUSED_UNTIL: WeakKeyDictionary[FhirClient, float] = WeakKeyDictionary()


class GatewayResponse(NamedTuple):
    """The body of a GET as text, or an error message."""

    text: str = ""
    error: str = ""


_UNREACHABLE = GatewayResponse(error="ConnectionError: the FHIR server does not answer")


class FhirGateway(ABC):
    """The FHIR server that an agent sees, at the same address for a store and for a real server.

    Agents are told `FHIR_BASE_URL`, as in the benchmark, and requests that lead elsewhere are
    refused. Errors are worded as by the benchmark's HTTP client, Python's requests. Raises nothing
    but `Redirected`: no agent can go on without the record's server.
    """

    def get(self, url: str) -> GatewayResponse:
        """The response to one GET."""
        path = relative_url(url)
        if path is not None:
            return self._fetch(path, url)
        # Only the beginning of the URL: the rest may repeat record text.
        beginning = repr(url[:_QUOTED_URL_CHARACTERS])
        only = f"only addresses that begin with {FHIR_BASE_URL} are allowed"
        return GatewayResponse(error=f"Invalid URL {beginning}: {only}")

    @abstractmethod
    def _fetch(self, path: str, url: str) -> GatewayResponse:
        """The response to a GET of a path below the base; `url` is the whole address."""


def open_gateway(record: Record) -> FhirGateway:
    """The gateway to a store, an overlay or a server.

    Raises `CallerError` for any other kind of record.
    """
    if isinstance(record, Store | Overlay):
        return StoreGateway(record)
    if isinstance(record, FhirClient):
        return ServerGateway(record)
    raise CallerError(
        "MedAgentBench needs a FHIR store or a server.\nName one with --record."
    )


class StoreGateway(FhirGateway):
    """A store in this process that behaves like the benchmark's server (HAPI)."""

    def __init__(self, record: Store | Overlay) -> None:
        record.time_limit = record.time_limit or _SEARCH_SECONDS
        self._service = FhirService(record, FHIR_BASE_URL)

    def _fetch(self, path: str, url: str) -> GatewayResponse:
        response = self._service.handle("GET", path)
        if response.status >= 400:
            return _http_error(response.status, url)
        return GatewayResponse(response.body)


class ServerGateway(FhirGateway):
    """A FHIR server whose own address in its responses is replaced by `FHIR_BASE_URL`."""

    def __init__(self, client: FhirClient) -> None:
        self._client = client

    def _fetch(self, path: str, url: str) -> GatewayResponse:
        if time.monotonic() < _PAUSED_UNTIL.get(self._client, 0.0):
            return _UNREACHABLE
        try:
            text = self._client.fetch(path)
        except FhirError as error:
            return _http_error(error.status, url)
        except ServerUnavailable:
            _PAUSED_UNTIL[self._client] = time.monotonic() + _PAUSE_SECONDS
            return _UNREACHABLE
        except Redirected:
            raise
        except ArchqaError as error:
            reason = f"{type(error).__name__}: the FHIR server denies access"
            return GatewayResponse(error=reason)
        return GatewayResponse(
            text.replace(self._client.base, FHIR_BASE_URL.rstrip("/"))
        )


def relative_url(url: str) -> str | None:
    """The part of a URL after the base, without doubled slashes; None for any other address."""
    base = FHIR_BASE_URL.rstrip("/")
    if not url.startswith(base):
        return None
    path = url[len(base) :]
    if path and path[0] not in "/?&":
        return None
    return path.lstrip("/")


def _http_error(status: int, url: str) -> GatewayResponse:
    """The message of Python's requests for an HTTP error."""
    phrase = ""
    if status in HTTPStatus._value2member_map_:
        phrase = HTTPStatus(status).phrase
    side = "Client" if status < 500 else "Server"
    return GatewayResponse(error=f"{status} {side} Error: {phrase} for url: {url}")


_WRITABLE_TYPES = ("Observation", "MedicationRequest", "ServiceRequest")
_MAX_EXISTING = 200
_LOOKUP_FAILURES = (
    ArchqaError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    AssertionError,
)
"""Errors that a server causes which answers with anything but FHIR."""


class ClinicalSession:
    """One task's access to a record.

    Use it in a `with`: writes above a store are dropped at its end.
    """

    def __init__(
        self,
        record: Record,
        task_text: TaskText,
        *,
        who: str,
        mode: WriteMode,
        audit: AuditLog | None,
        confirm: ConfirmWrite | None,
    ) -> None:
        if mode is WriteMode.APPLY and audit is None:
            mode = (
                WriteMode.VALIDATE
            )  # Nothing is stored without an audit log, as in a dry run.
        self._overlay: Overlay | None = None
        if mode is WriteMode.APPLY and isinstance(record, Store):
            self._overlay = Overlay.over(record)
        self.record: Record = self._overlay or record
        self.gateway: FhirGateway = open_gateway(self.record)
        self.task_text = task_text
        self.mode = mode
        self.attempts: list[dict[str, Any]] = []
        self._who = who
        self._confirm = confirm
        target = (
            self.record
            if mode is WriteMode.APPLY
            else cast("Record", _PatientCheck(self))
        )
        self._writer = Writer(target, mode, audit)

    @property
    def payload_format(self) -> PayloadFormat:
        """The format that suits the mode: the benchmark's if nothing is stored or checked."""
        if self.mode is WriteMode.RECORD:
            return PayloadFormat.BENCHMARK
        return PayloadFormat.R4

    def post(
        self, url: str, body: str, evidence: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Write, or only check, depending on the mode.

        Returns the reasons for a refusal, none if it was accepted.

        Every attempt is in the audit log.
        """
        try:
            payload = json_without_surrogates(json.loads(body))
        except (ValueError, RecursionError):
            payload = None
        reasons: list[str] = []
        if self.mode is not WriteMode.READ_ONLY and isinstance(payload, dict):
            # The benchmark's controller has no reasons, so mode `record` only asks a person.
            if self.mode is not WriteMode.RECORD:
                if relative_url(url) != _resource_type(url):
                    reasons.append(f"Post to {FHIR_BASE_URL} and the type.")
                reasons += objections(
                    payload, self.task_text, self.write_context(payload)
                )
            if (
                not reasons
                and self._confirm is not None
                and not self._confirm(url, payload)
            ):
                reasons.append("A person has declined this write.")
        result = self.write(url, body, evidence, tuple(reasons))
        if result.accepted:
            return ()
        errors = []
        for finding in result.findings:
            if finding.level == "error":
                errors.append(f"{finding.path} {finding.message}".strip())
        return tuple(errors)

    def write(
        self, url: str, body: str, evidence: tuple[str, ...], reasons: tuple[str, ...]
    ) -> WriteResult:
        """Write, or with reasons against it only record in the audit log that it was refused."""
        result = self._writer.post(
            _resource_type(url),
            body,
            url=url,
            who=self._who,
            evidence=evidence,
            against=reasons,
        )
        attempt = {
            "url": url,
            "status": result.status,
            "location": result.location or "",
            "findings": [finding.model_dump() for finding in result.findings],
            "evidence": evidence,
        }
        self.attempts.append(attempt)
        return result

    def write_context(self, payload: Resource) -> WriteContext:
        """What the record says about a payload's patient."""
        resource_type = str(payload.get("resourceType"))
        patient = subject_patient_id(payload)
        existing: tuple[Resource, ...] = ()
        if resource_type in _WRITABLE_TYPES and patient:
            query = {"patient": patient, "_count": str(_MAX_EXISTING)}
            if resource_type == "Observation":
                query["date"] = str(payload.get("effectiveDateTime"))
            with suppress(*_LOOKUP_FAILURES):
                existing = tuple(self.record.search(resource_type, query).resources)
        exists = self.has_patient(patient)
        return WriteContext({}, existing_resources=existing, patient_exists=exists)

    def has_patient(self, patient: str) -> bool | None:
        """Whether the record has the patient, by id or by identifier; None if the search fails."""
        try:
            if self.record.get("Patient", patient) is not None:
                return True
            return bool(self.record.search("Patient", {"identifier": patient}).entries)
        except _LOOKUP_FAILURES:
            return None

    def __enter__(self) -> "ClinicalSession":
        return self

    def __exit__(self, *_: object) -> None:
        if self._overlay is not None:
            self._overlay.close()


class _PatientCheck:
    """A stand-in for the record that tells the writer whether a patient exists, without failing."""

    def __init__(self, session: ClinicalSession) -> None:
        self._session = session

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """An empty resource if the patient exists or the record cannot tell, else None."""
        return None if self._session.has_patient(resource_id) is False else {}


def _resource_type(url: str) -> str:
    return url.partition("?")[0].rstrip("/").rpartition("/")[2]


_NOW = re.compile(
    r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))(?=\s+now\b)"
)


def parse_now(context: str) -> datetime:
    """The time a context names ("It's 2023-11-13T10:15:00+00:00 now").

    Raises `Unusable` if it names none.
    """
    match = _NOW.search(context)
    if match is None:
        raise Unusable(
            "The task names no time ('It's … now'), and dates are relative to one."
        )
    return datetime.fromisoformat(match[1])


def format_datetime(instant: datetime) -> str:
    """A FHIR dateTime to the second, with the zone as an offset."""
    return instant.isoformat(timespec="seconds")


def parse_instant(text: str) -> datetime | None:
    """The instant in a FHIR dateTime that has a zone; None for anything less precise."""
    try:
        instant = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return instant if instant.tzinfo else None
