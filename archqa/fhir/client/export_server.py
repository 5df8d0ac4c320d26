"""The bulk export of a FHIR server, as its client sees it: start, status, files.

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html; RFC 9110, sections 10.2.3 and 14 (Retry-After,
range requests).
"""

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx2

from archqa.core.value import FrozenModel
from archqa.errors import AuthenticationFailed, CallerError
from archqa.fhir.client.exchange import checked_address, exchange, open_http
from archqa.fhir.client.smart import BackendService, ClientCredentials, FixedToken
from archqa.fhir.outcome import FhirError
from archqa.fhir.values.urls import build_search_url
from archqa.safety.http_replies import is_redirect, redirect_error
from archqa.safety.server_urls import check_encrypted, fhir_server_problem, host_of

Access = FixedToken | ClientCredentials | BackendService

_MAX_REPLY_BYTES = 64 * 2**20
"""Bytes of a manifest: it names every file."""

_MAX_FILES = 100_000
_MIN_WAIT, _MAX_WAIT = 0.2, 24 * 3600.0
"""Seconds that a server may ask to wait; what is less or more counts as that."""

_TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset(
    {"transient", "lock-error", "no-store", "exception", "timeout", "incomplete", "throttled"}
)
"""Issue types that say "ask again" (hl7.org/fhir/R4/valueset-issue-type.html, below transient)."""

_TYPE = re.compile(r"[A-Za-z]{1,64}")

_MAX_DIAGNOSTICS = 5


class TransientFailure(Exception):
    """A failure that may be gone later: after `retry_after` seconds, if the server says so."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(reason)


class RemoteFile(FrozenModel):
    """A file of an export: the type of its resources, and how many there are, if it is told."""

    type: str
    url: str
    count: int | None = None


class Manifest(FrozenModel):
    """What an export gave. `errors` are files of OperationOutcomes, `deleted` of what is gone."""

    transaction_time: str
    requires_token: bool
    files: tuple[RemoteFile, ...]
    errors: tuple[RemoteFile, ...] = ()
    deleted: tuple[RemoteFile, ...] = ()


class Waiting(NamedTuple):
    """The export runs: how far it is, in the server's words, and when to look again."""

    progress: str
    retry_after: float | None


class ExportServer:
    """A FHIR server at `base_url`; its files may also be on `allowed_hosts`.

    The access token goes to the origin of the base URL alone. Raises `CallerError` as `FhirClient`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        access: Access | None = None,
        allowed_hosts: Iterable[str] = (),
        timeout: float = 60.0,
        transport: httpx2.BaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self.base = checked_address(base_url, allow_plain_http=allow_plain_http)
        self._access = access
        self._allowed_hosts = tuple(map(_host_and_port, allowed_hosts))
        self._allow_plain_http = allow_plain_http
        self._http = open_http(self.base, timeout, transport)

    def start(self, path: str, params: Mapping[str, str]) -> str:
        """Start an export and return the address of its status.

        Raises `TransientFailure`, `FhirError`, `AuthenticationFailed`, `Redirected`.
        """
        query = build_search_url(path, params.items())
        reply = self._exchange("GET", query, {"prefer": "respond-async"})
        location = reply.headers.get("content-location")
        if reply.status_code != 202 or not location:
            raise FhirError("The server does not answer as bulk exports do.", 502, "structure")
        url = _join(f"{self.base}/", location)
        self._check_hosts([url], "status of the export")
        return url

    def look(self, status_url: str) -> Waiting | Manifest:
        """Return the state of an export. Raises as `start` does."""
        headers = {"accept": "application/json"}
        reply = self._exchange("GET", status_url, headers, of_export=True)
        if reply.status_code == 202:
            progress = reply.headers.get("x-progress", "")[:100]
            return Waiting(progress, _retry_after(reply.headers))
        manifest = _read_manifest(reply, status_url)
        files = (*manifest.files, *manifest.errors, *manifest.deleted)
        self._check_hosts([file.url for file in files], "data of the export")
        return manifest

    def delete(self, status_url: str) -> None:
        """Tell the server that the export is not needed any more. Raises as `start` does."""
        self._exchange("DELETE", status_url, {}, of_export=True)

    @contextmanager
    def open_file(
        self, url: str, headers: Mapping[str, str], *, with_token: bool
    ) -> Iterator[httpx2.Response]:
        """Provide the reply with a file, whose body is still to be read: 200, 206 or 416.

        Raises as `start` does.
        """
        self._check_hosts([url], "data of the export")
        request = self._request("GET", url, headers)
        if with_token:
            self._add_token(request)
        try:
            reply = self._http.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise TransientFailure(type(error).__name__) from None
        try:
            if reply.status_code not in {200, 206, 416}:
                _raise_for_status(reply, b"", self.base, of_export=True)
            yield reply
        finally:
            reply.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _request(self, method: str, url: str, headers: Mapping[str, str]) -> httpx2.Request:
        try:
            return self._http.build_request(method, url, headers=dict(headers))
        except httpx2.InvalidURL:
            raise FhirError("The server names no valid address.", 502, "structure") from None

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], *, of_export: bool = False
    ) -> httpx2.Response:
        request = self._request(method, url, headers)
        self._add_token(request)
        try:
            reply = exchange(self._http, request, _MAX_REPLY_BYTES)
        except httpx2.HTTPError as error:
            raise TransientFailure(type(error).__name__) from None
        if reply.status_code >= 300:
            _raise_for_status(reply, reply.content, self.base, of_export=of_export)
        return reply

    def _add_token(self, request: httpx2.Request) -> None:
        if self._access is not None and _origin(str(request.url)) == _origin(self.base):
            request.headers["authorization"] = self._access.authorization(self._http)

    def _check_hosts(self, urls: Iterable[str], what: str) -> None:
        """Refuse addresses on hosts that were not named: nobody sent the record's text there."""
        foreign: dict[str, str] = {}
        for url in urls:
            if fhir_server_problem(url.partition("?")[0]):
                raise FhirError(f"The {what} is at no valid address.", 502, "structure")
            is_own = _origin(url) == _origin(self.base)
            if not is_own and not self._is_allowed(url):
                foreign[host_of(url)] = urlsplit(url).netloc
            elif not is_own:
                check_encrypted(url, allow_plain_http=self._allow_plain_http)
        if foreign:
            hosts = ", ".join(list(foreign)[:5])
            options = " ".join(f"--allow-host {name}" for name in list(foreign.values())[:5])
            text = f"The {what} is on another host: {hosts}. It is asked only if you allow it:"
            raise FhirError(f"{text} {options}", 502, "security")

    def _is_allowed(self, url: str) -> bool:
        host, port = _host_and_port(url)
        return (host, port) in self._allowed_hosts or (host, None) in self._allowed_hosts


def _read_manifest(reply: httpx2.Response, status_url: str) -> Manifest:
    try:
        content = reply.json()
        for link in content.get("link") or []:
            if link.get("relation") == "next":
                raise FhirError("The server splits its manifest, which is not supported.", 502)
        files = _remote_files(content["output"], status_url)
        manifest = Manifest(
            transaction_time=str(content["transactionTime"]),
            requires_token=content.get("requiresAccessToken") is True,
            files=files,
            errors=_remote_files(content.get("error") or [], status_url),
            deleted=_remote_files(content.get("deleted") or [], status_url),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FhirError("The server's manifest is none of a bulk export.", 502) from None
    if len(files) > _MAX_FILES:
        raise FhirError(f"The export has more than {_MAX_FILES} files.", 502, "too-long")
    return manifest


def _remote_files(entries: list[dict[str, Any]], status_url: str) -> tuple[RemoteFile, ...]:
    """Return the files of a part of a manifest. Raises `ValueError` and others for no such part."""
    files = []
    for entry in entries:
        resource_type = str(entry.get("type", "OperationOutcome"))
        if not _TYPE.fullmatch(resource_type) or not isinstance(entry["url"], str):
            raise ValueError("no file")
        count = entry.get("count")
        files.append(
            RemoteFile(
                type=resource_type,
                url=_join(status_url, entry["url"]),
                count=count if type(count) is int else None,
            )
        )
    return tuple(files)


def _join(base: str, url: str) -> str:
    """Return an address that a server names, in full. Raises `FhirError` if it is none."""
    try:
        return urljoin(base, url)
    except ValueError:
        raise FhirError("The server names no valid address.", 502, "structure") from None


def _raise_for_status(
    reply: httpx2.Response, content: bytes, base: str, *, of_export: bool = False
) -> None:
    """Raise what a status of 300 or more says; `of_export` says that 500 is the export's end."""
    status = reply.status_code
    if is_redirect(status):
        raise redirect_error(str(reply.request.url), status, reply.headers.get("location", ""))
    issues = _issues(content)
    if status in {401, 403}:
        refusal = f"The FHIR server at {base} refuses the token."
        raise AuthenticationFailed(f"{refusal}\nCheck it, and what it is allowed to do.")
    is_transient = status in _TRANSIENT_STATUSES
    if of_export and status >= 500 and issues:  # A status of its own that is no passing failure.
        is_transient = any(
            issue.get("code") in _TRANSIENT_CODES - {"exception"} for issue in issues
        )
    if is_transient:
        raise TransientFailure(f"HTTP {status}", _retry_after(reply.headers))
    if of_export and status in {404, 410}:
        raise FhirError("The server has this export no more: begin anew with --restart.", status)
    texts = [str(issue["diagnostics"]) for issue in issues if issue.get("diagnostics")]
    default = f"The FHIR server answers HTTP {status}."
    raise FhirError(texts[:_MAX_DIAGNOSTICS] or default, status)


def _issues(content: bytes) -> list[dict[str, Any]]:
    try:
        issues = httpx2.Response(200, content=content).json()["issue"]
        return [issue for issue in issues if isinstance(issue, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Return the seconds of a `Retry-After`, which is a number or a date; None if there is none."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return min(max(float(text[:9]), _MIN_WAIT), _MAX_WAIT)
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment - datetime.datetime.now(datetime.UTC)).total_seconds()
    except (ValueError, TypeError):
        return None
    return min(max(seconds, _MIN_WAIT), _MAX_WAIT)


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


def _host_and_port(text: str) -> tuple[str, int | None]:
    """Return host and port of an address or of `host:port`; no port stands for any."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise CallerError("A host is named like storage.example or storage.example:8443.") from None
