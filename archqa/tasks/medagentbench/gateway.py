"""The server a MedAgentBench agent sees: always at one address, be it a store beside us or a real server behind it.

Agents are told `http://localhost:8080/fhir/`, as in the benchmark, and ask for nothing else: requests that lead
elsewhere are refused. Words of errors are those of the client the benchmark uses.
"""

import time
from http import HTTPStatus
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from archqa.errors import ArchqaError, CallerError, ServerUnavailable
from archqa.fhir import FhirClient, FhirError, FhirService, Overlay, Store
from archqa.fhir.record import Record

FHIR_BASE_URL = "http://localhost:8080/fhir/"
"""Where agents are told that the record lies (trailing slash and all)."""

_SECONDS = 30.0
"""For one search in a store."""

_REST = 5.0
"""Seconds for which a server that was asked several times in vain is left alone: a run of 300 tasks must end."""

_DOWN: WeakKeyDictionary[FhirClient, float] = WeakKeyDictionary()


class GatewayResponse(NamedTuple):
    """What a GET came to: the body as text, or why there is none."""

    text: str = ""
    error: str = ""


_SILENT = GatewayResponse(error="ConnectionError: the FHIR server does not answer")


class FhirGateway(Protocol):
    """Answers GETs of URLs below `FHIR_BASE_URL`. Never raises."""

    def get(self, url: str) -> GatewayResponse:
        """The reply to one GET."""
        ...


def open_gateway(record: Record) -> FhirGateway:
    """The door to a store, an overlay or a server. Raises `CallerError` for any other kind of record."""
    if isinstance(record, Store | Overlay):
        return StoreGateway(record)
    if isinstance(record, FhirClient):
        return ServerGateway(record)
    raise CallerError("MedAgentBench needs a FHIR store or a server.\nName one with --record.")


class StoreGateway:
    """A store in its own process, in the ways of the benchmark's server (HAPI)."""

    def __init__(self, record: Store | Overlay) -> None:
        record.time_limit = record.time_limit or _SECONDS
        self._service = FhirService(record, FHIR_BASE_URL)

    def get(self, url: str) -> GatewayResponse:
        """The reply of the store."""
        place = relative_url(url)
        if place is None:
            return _elsewhere(url)
        reply = self._service.handle("GET", place)
        return (
            GatewayResponse(reply.body)
            if reply.status < 400
            else GatewayResponse(error=_refused(reply.status, url))
        )


class ServerGateway:
    """A FHIR server somewhere: GETs go there, and what it says of its own address is said of ours."""

    def __init__(self, client: FhirClient) -> None:
        self._client = client

    def get(self, url: str) -> GatewayResponse:
        """The reply of the server."""
        place = relative_url(url)
        if place is None:
            return _elsewhere(url)
        if time.monotonic() < _DOWN.get(self._client, 0.0):
            return _SILENT
        try:
            text = self._client.fetch(place)
        except FhirError as error:
            return GatewayResponse(error=_refused(error.status, url))
        except ServerUnavailable:
            _DOWN[self._client] = time.monotonic() + _REST
            return _SILENT
        except ArchqaError as error:
            return GatewayResponse(
                error=f"{type(error).__name__}: the FHIR server does not let us in"
            )
        return GatewayResponse(text.replace(self._client.base, FHIR_BASE_URL.rstrip("/")))


def relative_url(url: str) -> str | None:
    """What comes after the base, without the slashes agents double; None for an address elsewhere."""
    base = FHIR_BASE_URL.rstrip("/")
    if not url.startswith(base):
        return None
    rest = url[len(base) :]
    return rest.lstrip("/") if not rest or rest[0] in "/?&" else None


def _refused(status: int, url: str) -> str:
    """As Python's requests puts it."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return f"{status} {'Client' if status < 500 else 'Server'} Error: {phrase} for url: {url}"


def _elsewhere(url: str) -> GatewayResponse:
    """Only the head is quoted: the rest may hold what an agent has read."""
    return GatewayResponse(
        error=f"Invalid URL {url[:40]!r}: only addresses that begin with {FHIR_BASE_URL} are asked"
    )
