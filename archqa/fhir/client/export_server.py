"""The bulk export of a FHIR server, as its client sees it: start, status, downloads.

    0001-Patient.ndjson.part    what has arrived of a file so far
    0001-Patient.ndjson.tag     what the server calls its content (ETag), if it does
    0001-Patient.ndjson         the whole file

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html; RFC 9110, sections 10.2.3, 13.1.5 and 14
(Retry-After, If-Range, range requests).
"""

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx2

from archqa.core.value import FrozenModel
from archqa.errors import AuthenticationFailed, CallerError
from archqa.fhir.client.exchange import (
    Reply,
    TransientFailure,
    checked_address,
    ends_within,
    exchange,
    open_http,
    origin,
    read_issues,
    request_url,
)
from archqa.fhir.client.http_client import TRANSIENT_STATUSES
from archqa.fhir.client.smart import BackendService, ClientCredentials, FixedToken
from archqa.fhir.record import FhirError, objects_of
from archqa.fhir.values.names import names_in
from archqa.fhir.values.urls import build_search_url
from archqa.safety.files import open_private_file, write_private_text
from archqa.safety.http_replies import (
    BodyReader,
    ReplyUnreadable,
    is_redirect,
    redirect_error,
)
from archqa.safety.server_urls import check_encrypted, fhir_server_problem, host_of

Access = FixedToken | ClientCredentials | BackendService

_MAX_REPLY_BYTES = 64 * 2**20
"""Bytes of a manifest: it names every file."""

_MAX_DOWNLOAD_BYTES = 2**50
_MAX_FILES = 100_000
_MIN_WAIT, _MAX_WAIT = 0.2, 24 * 3600.0
"""Seconds that a server may ask to wait; what is less or more counts as that."""


_TYPE = re.compile(r"[A-Za-z]{1,64}")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d+/(?:\d+|\*)")
_WHOLE_SIZE = re.compile(r"bytes \*/(\d{1,18})")


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
        url = request_url(self.base, build_search_url(path, params.items()))
        reply = self._exchange("GET", url, {"prefer": "respond-async"})
        location = reply.headers.get("content-location")
        if reply.status != 202 or not location:
            raise FhirError(
                "The server does not answer as bulk exports do.", 502, "structure"
            )
        url = _join(f"{self.base}/", location)
        self._check_hosts([url], "status of the export")
        return url

    def look(self, status_url: str) -> Waiting | Manifest:
        """Return the state of an export. Raises as `start` does."""
        headers = {"accept": "application/json"}
        reply = self._exchange(
            "GET",
            status_url,
            headers,
            of_export=True,
        )
        if reply.status == 202:
            progress = reply.headers.get("x-progress", "")[:100]
            return Waiting(progress, _retry_after(reply.headers))
        manifest = _read_manifest(reply, status_url)
        files = (*manifest.files, *manifest.errors, *manifest.deleted)
        self._check_hosts([file.url for file in files], "data of the export")
        return manifest

    def delete(self, status_url: str) -> None:
        """Tell the server that the export is not needed any more. Raises as `start` does."""
        self._exchange(
            "DELETE",
            status_url,
            {},
            of_export=True,
        )

    @contextmanager
    def open_file(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        with_token: bool,
    ) -> Iterator[httpx2.Response]:
        """Provide the reply with a file, whose body is still to be read: 200, 206 or 416.

        Raises as `start` does.
        """
        self._check_hosts([url], "data of the export")
        request = self._http.build_request("GET", url, headers=dict(headers))
        if with_token:
            self._add_token(request)
        try:
            # A file may take hours: only what comes before it has to end.
            with ends_within(self._http.timeout.read):
                reply = self._http.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise TransientFailure(type(error).__name__) from None
        try:
            if is_redirect(reply.status_code):
                location = reply.headers.get("location", "")
                raise redirect_error(url, reply.status_code, location)
            if reply.status_code not in {200, 206, 416}:
                refusal = Reply(reply.status_code, reply.headers, b"")
                _raise_for_status(refusal, self.base, of_export=True)
            yield reply
        finally:
            reply.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        of_export: bool = False,
    ) -> Reply:
        self._check_hosts([url], "status of the export")
        request = self._http.build_request(method, url, headers=dict(headers))
        self._add_token(request)
        reply = exchange(self._http, request, _MAX_REPLY_BYTES)
        if reply.status >= 300:
            _raise_for_status(reply, self.base, of_export=of_export)
        return reply

    def _add_token(self, request: httpx2.Request) -> None:
        if self._access is not None and origin(request.url) == origin(self.base):
            request.headers["authorization"] = self._access.authorization(self._http)

    def _check_hosts(self, urls: Iterable[str], what: str) -> None:
        """Refuse addresses on hosts that were not named: nobody sent the record's text there."""
        foreign: dict[str, str] = {}
        for url in urls:
            if fhir_server_problem(url.partition("?")[0]):
                raise FhirError(f"The {what} is at no valid address.", 502, "structure")
            if origin(url) == origin(self.base):
                continue
            host, port = _host_and_port(url)
            if {(host, port), (host, None)}.isdisjoint(self._allowed_hosts):
                foreign[host_of(url)] = urlsplit(url).netloc
            else:
                check_encrypted(url, allow_plain_http=self._allow_plain_http)
        if foreign:
            hosts = ", ".join(list(foreign)[:5])
            options = " ".join(
                f"--allow-host {name}" for name in list(foreign.values())[:5]
            )
            text = f"The {what} is on another host: {hosts}. It is asked only if you allow it:"
            raise FhirError(f"{text} {options}", 502, "security")


def part_path(path: Path) -> Path:
    """Return where a file is until it is whole."""
    return path.with_name(f"{path.name}.part")


def download(
    server: ExportServer,
    file: RemoteFile,
    path: Path,
    *,
    with_token: bool,
    progress: Callable[[int], None],
) -> None:
    """Add what is missing of a file, which takes its own name when it is whole; one attempt.

    `progress` is told the bytes that arrive. Raises `TransientFailure` where another attempt may go
    on, `FhirError` if the server does not have the file any more or sent another number of
    resources, and as `ExportServer.open_file`.
    """
    part = part_path(path)
    offset = part.stat().st_size if part.exists() else 0
    headers = {"accept": "application/fhir+ndjson", "accept-encoding": "identity"}
    tag_path = path.with_name(f"{path.name}.tag")
    tag = tag_path.read_text(encoding="utf-8") if tag_path.exists() else ""
    if offset:
        headers["range"] = f"bytes={offset}-"
    if offset and tag:
        headers["if-range"] = tag
    with server.open_file(file.url, headers, with_token=with_token) as reply:
        content_range = reply.headers.get("content-range", "")
        is_encoded = reply.headers.get("content-encoding", "identity") != "identity"
        if reply.status_code == 416:  # The file must end where its part ends.
            match = _WHOLE_SIZE.fullmatch(content_range)
            if match is None or int(match[1]) != offset or not offset:
                part.unlink(missing_ok=True)
                raise TransientFailure("the server has a shorter file")
        elif reply.status_code == 206:
            match = _CONTENT_RANGE.fullmatch(content_range)
            if match is None or int(match[1]) != offset or is_encoded:
                part.unlink(missing_ok=True)
                raise TransientFailure("the server sent another part of a file")
            _append(reply, part, progress)
        else:
            part.unlink(missing_ok=True)
            new_tag = str(reply.headers.get("etag", ""))
            # Only equal strong tags mean equal bytes.
            is_strong = new_tag.startswith('"') and new_tag.endswith('"')
            is_plain = new_tag.isascii() and new_tag.isprintable()
            write_private_text(tag_path, new_tag if is_strong and is_plain else "")
            _append(reply, part, progress)
    if file.count is not None:
        with part.open("rb") as downloaded:
            lines = sum(1 for line in downloaded if not line.isspace())
        if lines != file.count:
            part.unlink()
            numbers = f"the server counts {file.count} resources and sent {lines}"
            raise FhirError(
                f"{file.type}: {numbers}. Nothing was loaded.", 502, "incomplete"
            )
    part.replace(path)
    tag_path.unlink(missing_ok=True)


def _append(
    reply: httpx2.Response, part: Path, progress: Callable[[int], None]
) -> None:
    """Add what a reply brings to a file."""
    assert isinstance(reply.stream, httpx2.SyncByteStream)
    coding = reply.headers.get("content-encoding", "")
    try:
        with open_private_file(part, append=True) as file:
            reader = BodyReader(coding, _MAX_DOWNLOAD_BYTES)
            for block in reply.stream:
                content = reader.decode(block)
                file.write(content)
                progress(len(content))
            reader.finish()
    except BaseException as error:
        if coding not in {"", "identity"}:
            part.unlink(missing_ok=True)  # Its bytes are not those that a range counts.
        if isinstance(error, ReplyUnreadable):
            raise FhirError(
                f"A file of the export {error}.", 502, "structure"
            ) from None
        if isinstance(error, httpx2.HTTPError):
            raise TransientFailure(type(error).__name__) from None
        raise


def _read_manifest(reply: Reply, status_url: str) -> Manifest:
    content = reply.json()
    for link in objects_of(content, "link"):
        if link.get("relation") == "next":
            raise FhirError(
                "The server splits its manifest, which is not supported.", 502
            )
    try:
        files = _remote_files(content["output"], status_url)
        manifest = Manifest(
            transaction_time=str(content["transactionTime"]),
            requires_token=content.get("requiresAccessToken") is True,
            files=files,
            errors=_remote_files(content.get("error") or [], status_url),
            deleted=_remote_files(content.get("deleted") or [], status_url),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FhirError(
            "The server's manifest is none of a bulk export.", 502
        ) from None
    if len(files) > _MAX_FILES:
        raise FhirError(
            f"The export has more than {_MAX_FILES} files.", 502, "too-long"
        )
    return manifest


def _remote_files(
    entries: list[dict[str, Any]], status_url: str
) -> tuple[RemoteFile, ...]:
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
        raise FhirError(
            "The server names no valid address.", 502, "structure"
        ) from None


def _raise_for_status(reply: Reply, base: str, *, of_export: bool) -> None:
    """Raise what a status of 400 or more says; `of_export` says that 500 is the export's end."""
    status = reply.status
    issues = read_issues(reply.content)
    if status in {401, 403}:
        refusal = f"The FHIR server at {base} refuses the token."
        raise AuthenticationFailed(
            f"{refusal}\nCheck it, and what it is allowed to do."
        )
    is_transient = status in TRANSIENT_STATUSES
    if (
        of_export and status >= 500 and issues
    ):  # A status of its own that is no passing failure.
        is_transient = any(
            issue.get("code") in names_in("transient issues") for issue in issues
        )
    if is_transient:
        raise TransientFailure(f"HTTP {status}", _retry_after(reply.headers))
    if of_export and status in {404, 410}:
        raise FhirError(
            "The server has this export no more: begin anew with --restart.", status
        )
    default = f"The FHIR server answers HTTP {status}."
    raise FhirError(reply.diagnostics() or default, status)


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Return the seconds of a `Retry-After`, which is a number or a date; None if there is none."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return min(max(float(text[:9]), _MIN_WAIT), _MAX_WAIT)
    try:
        moment = parsedate_to_datetime(text)
        seconds = (moment - datetime.datetime.now(datetime.UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, _MIN_WAIT), _MAX_WAIT)


def _host_and_port(text: str) -> tuple[str, int | None]:
    """Return host and port of an address or of `host:port`; no port stands for any."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise CallerError(
            "A host is named like storage.example or storage.example:8443."
        ) from None
