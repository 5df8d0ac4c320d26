"""The FHIR server that a MedAgentBench agent sees.

It has the same address for a local store and for a real server.

Agents are told `http://localhost:8080/fhir/`, as in the benchmark, and requests that lead elsewhere
are refused. Errors are worded as by the benchmark's HTTP client, Python's requests.
"""

import time
from http import HTTPStatus
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from archqa.errors import ArchqaError, CallerError, Redirected, ServerUnavailable
from archqa.fhir import FhirClient, FhirError, FhirService, Overlay, Store
from archqa.fhir.record import Record

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


class FhirGateway(Protocol):
    """Answers GETs of URLs below `FHIR_BASE_URL`. Raises nothing but `Redirected`: no agent can
    go on without the record's server.
    """

    def get(self, url: str) -> GatewayResponse:
        """The response to one GET."""
        ...


def open_gateway(record: Record) -> FhirGateway:
    """The gateway to a store, an overlay or a server.

    Raises `CallerError` for any other kind of record.
    """
    if isinstance(record, Store | Overlay):
        return StoreGateway(record)
    if isinstance(record, FhirClient):
        return ServerGateway(record)
    raise CallerError("MedAgentBench needs a FHIR store or a server.\nName one with --record.")


class StoreGateway:
    """A store in this process that behaves like the benchmark's server (HAPI)."""

    def __init__(self, record: Store | Overlay) -> None:
        record.time_limit = record.time_limit or _SEARCH_SECONDS
        self._service = FhirService(record, FHIR_BASE_URL)

    def get(self, url: str) -> GatewayResponse:
        """The store's response."""
        path = relative_url(url)
        if path is None:
            return _foreign_url(url)
        response = self._service.handle("GET", path)
        if response.status >= 400:
            return _http_error(response.status, url)
        return GatewayResponse(response.body)


class ServerGateway:
    """A FHIR server whose own address in its responses is replaced by `FHIR_BASE_URL`."""

    def __init__(self, client: FhirClient) -> None:
        self._client = client

    def get(self, url: str) -> GatewayResponse:
        """The server's response."""
        path = relative_url(url)
        if path is None:
            return _foreign_url(url)
        if time.monotonic() < _PAUSED_UNTIL.get(self._client, 0.0):
            return _UNREACHABLE
        return self._fetch(path, url)

    def _fetch(self, path: str, url: str) -> GatewayResponse:
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
        return GatewayResponse(text.replace(self._client.base, FHIR_BASE_URL.rstrip("/")))


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


def _foreign_url(url: str) -> GatewayResponse:
    """Quotes only the beginning of the URL: the rest may repeat record text."""
    beginning = repr(url[:_QUOTED_URL_CHARACTERS])
    return GatewayResponse(
        error=f"Invalid URL {beginning}: only addresses that begin with {FHIR_BASE_URL} are allowed"
    )
