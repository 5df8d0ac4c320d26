"""A record on any FHIR server over HTTP, with the same interface as `Store`.

Sources: hl7.org/fhir/R4/http.html, bundle.html#searchset.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Self

import httpx2
import stamina

from archqa.core.recorded_numbers import parse_json
from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.fhir.client.exchange import checked_address, exchange, open_http
from archqa.fhir.client.smart import BackendService, ClientCredentials, FixedToken
from archqa.fhir.record import (
    CodeCount,
    Entry,
    FhirError,
    Page,
    Resource,
    SearchParams,
    all_pages,
)
from archqa.fhir.values.element_values import CodedTerm, compile_path, extract_terms
from archqa.fhir.values.json_text import items, members
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import (
    Kind,
    elements,
    is_concept_element,
    parameters,
)
from archqa.fhir.values.urls import build_search_url, flatten_params, parse_search_url
from archqa.safety.server_urls import is_server_url

TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

MAX_REPLY_BYTES = 256 * 2**20
"""Bytes of one reply."""

_MAX_DIAGNOSTICS = 5
"""Diagnostics of a refusal, and warnings of a reply, that are shown."""

_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
"""One value of a `Warning` header; the text is the group (RFC 7234, 5.5)."""


class AccessForbidden(AuthenticationFailed):
    """The token does not allow a request."""

    status = 403


class ServerError(ServerUnavailable):
    """The server answers, but keeps failing at a request."""

    status = 500


class _TransientFailure(Exception):
    """A failure that may be gone at the next attempt."""

    error: type[ServerUnavailable] = ServerUnavailable


class _InternalError(_TransientFailure):
    error = ServerError


class FhirClient:
    """A FHIR server at `base_url`. Safe to use from several threads.

    `tries` attempts are made for each read, each with `timeout` seconds. Raises `CallerError` for a
    URL with a secret in it, and for plain http to another machine unless `allow_plain_http`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | FixedToken | ClientCredentials | BackendService | None = None,
        tries: int = 4,
        timeout: float = 60.0,
        transport: httpx2.BaseTransport | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        self.base = checked_address(base_url, allow_plain_http=allow_plain_http)
        self._token = FixedToken(token) if isinstance(token, str) else token
        self._tries = tries
        self._http = open_http(self.base, timeout, transport)

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """Return one resource, or None. Raises `FhirError` and `ServerUnavailable`."""
        if resource_type not in R4_RESOURCE_TYPES:
            hint = did_you_mean(resource_type, R4_RESOURCE_TYPES)
            raise FhirError(
                f"There is no such resource type.{hint}", 404, "not-supported"
            )
        try:
            text = self.fetch(build_search_url(f"{resource_type}/{resource_id}", ()))
        except FhirError as error:
            if error.status in {404, 410}:
                return None
            raise
        return _parse_object(text)

    def search(
        self,
        query: str,
        params: SearchParams | None = None,
        *,
        lenient: bool | None = None,
    ) -> Page:
        """Return one page. `query` may also be the `next` of a page.

        Raises `FhirError`, `ServerUnavailable`.
        """
        headers = {}
        if lenient is not None:
            handling = "lenient" if lenient else "strict"
            headers["prefer"] = f"handling={handling}"
        if is_server_url(query):
            return self._page(query, headers)
        path, url_params = parse_search_url(query)
        url = build_search_url(path, [*url_params, *flatten_params(params)])
        return self._page(url, headers)

    def search_all(
        self, query: str, params: SearchParams | None = None
    ) -> Iterator[Resource]:
        """Yield the matches of all pages, each resource once.

        Raises `FhirError` if the server's pages never end.
        """
        yielded: set[tuple[str, str]] = set()
        for page in all_pages(self, self.search(query, params)):
            for entry in page.entries:
                key = (entry.type, entry.id)
                if entry.mode == "match" and key not in yielded:
                    yielded.add(key)
                    yield entry.resource

    def everything(self, patient: str) -> Iterator[Resource]:
        """Yield all pages of `Patient/{id}/$everything`."""
        return self.search_all(f"Patient/{patient}/$everything")

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """Return the number of resources of each type that the server's capabilities name.

        Sends one `_summary=count` for each type.
        """
        rest = self.capabilities().get("rest") or [{}]
        counts = {}
        for declared in rest[0].get("resource") or []:
            resource_type = str(declared.get("type"))
            names = {
                str(item.get("name")) for item in declared.get("searchParam") or []
            }
            # A server may extend `patient` to types that are about no patient.
            has_patients = "patient" in names and "patient" in parameters(resource_type)
            if patient and not (has_patients or resource_type == "Patient"):
                continue
            params = {"_summary": "count", **_of_patient(resource_type, patient)}
            total = self.search(resource_type, params).total
            if total:
                counts[resource_type] = total
        return dict(sorted(counts.items()))

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """Return the codes of a type's resources, most frequent first. Fetches every resource."""
        params = {"_count": "1000", **_of_patient(resource_type, patient)}
        return count_codes(resource_type, self.search_all(resource_type, params))

    def create(self, resource: Resource) -> Resource:
        """Store a resource on the server, in a single attempt, and return what was stored.

        Raises `FhirError`, and `ServerUnavailable` where it may or may not have been stored.
        """
        resource_type = str(resource.get("resourceType"))
        body = json.dumps(resource, ensure_ascii=False).encode()
        try:
            reply = self._send("POST", resource_type, content=body)
        except (httpx2.HTTPError, _TransientFailure) as error:
            reason = (
                str(error)
                if isinstance(error, _TransientFailure)
                else type(error).__name__
            )
            failure = (
                f"The FHIR server at {self.base} did not confirm a write ({reason})."
            )
            raise ServerUnavailable(f"{failure}\nCheck whether it is stored.") from None
        if reply.text.strip().startswith("{"):
            stored = reply.json()
            if isinstance(stored, dict) and stored.get("id"):
                return stored
        target = parse_reference(reply.headers.get("location", "").rstrip("/"))
        return {**resource, "id": target.id if target else ""}

    def capabilities(self) -> Resource:
        """Return the server's CapabilityStatement."""
        return _parse_object(self.fetch("metadata"))

    def fetch(self, url: str) -> str:
        """Return the body of a `GET` as text; transient failures are retried.

        Raises `FhirError`, `ServerUnavailable`.
        """
        return self._reply(url, {}).text

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reply(self, url: str, headers: dict[str, str]) -> httpx2.Response:
        attempts = stamina.retry_context(
            on=_TransientFailure, attempts=self._tries, timeout=None
        )
        try:
            for attempt in attempts:
                with attempt:
                    try:
                        return self._send("GET", url, headers=headers)
                    except httpx2.InvalidURL:
                        raise FhirError("The search is no valid URL.") from None
                    except httpx2.HTTPError as error:
                        raise _TransientFailure(type(error).__name__) from None
        except _TransientFailure as error:
            failure = f"The FHIR server at {self.base} does not answer ({error})."
            raise error.error(f"{failure}\nCheck the address, or try later.") from None
        raise AssertionError

    def _page(self, url: str, headers: dict[str, str]) -> Page:
        reply = self._reply(url, headers)
        # The texts of `Warning` headers.
        warnings = _WARNING.findall(reply.headers.get("warning", ""))[:_MAX_DIAGNOSTICS]
        try:
            return _read_searchset(reply.text, url, tuple(warnings))
        except (ValueError, RecursionError):
            raise FhirError(
                "The server's answer is not JSON.", 502, "structure"
            ) from None

    def _send(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx2.Response:
        headers = dict(headers or {})
        if method == "POST":
            headers["content-type"] = "application/fhir+json"
        request = self._http.build_request(
            method,
            url,
            headers=headers,
            content=content,
        )
        # Whatever was asked for, a server's link or an agent's URL: another server must not
        # receive the token.
        if _origin(request.url) != _origin(httpx2.URL(self.base)):
            message = "The link leads to another address; it was not followed."
            raise FhirError(message, 502, "security")
        if self._token is not None:
            request.headers["authorization"] = self._token.authorization(self._http)
        reply = exchange(self._http, request, MAX_REPLY_BYTES)
        status = reply.status_code
        if status in {401, 403}:
            refusal = f"The FHIR server at {self.base} refuses the token."
            advice = "Check it, and what it is allowed to do; archqa takes it from ARCHQA_FHIR_TOKEN."
            refused = AccessForbidden if status == 403 else AuthenticationFailed
            raise refused(f"{refusal}\n{advice}")
        if status == ServerError.status:
            raise _InternalError(f"HTTP {status}")
        if status in TRANSIENT_STATUSES:
            raise _TransientFailure(f"HTTP {status}")
        if status >= 300:
            default = f"The FHIR server answers HTTP {status}."
            raise FhirError(_diagnostics(reply) or default, status)
        return reply


def _origin(url: httpx2.URL) -> tuple[str, bytes, str, int | None]:
    """Return scheme, user, host and port of a URL."""
    return url.scheme, url.userinfo, url.host, url.port


def _of_patient(resource_type: str, patient: str | None) -> dict[str, str]:
    """Return the search parameter that limits a type to one patient."""
    if patient is None:
        return {}
    name = "_id" if resource_type == "Patient" else "patient"
    return {name: patient}


def _parse_object(text: str) -> Resource:
    try:
        resource = parse_json(text)
    except (ValueError, RecursionError):
        raise FhirError("The server's answer is not JSON.", 502, "structure") from None
    if not isinstance(resource, dict):
        raise FhirError("The server's answer is no resource.", 502, "structure")
    return resource


def _diagnostics(reply: httpx2.Response) -> list[str]:
    texts = []
    try:
        for issue in reply.json()["issue"]:
            if issue.get("diagnostics"):
                texts.append(str(issue["diagnostics"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return texts[:_MAX_DIAGNOSTICS]


def _read_searchset(text: str, query: str, warnings: tuple[str, ...]) -> Page:
    """Return a searchset as a page; resources keep their exact text.

    Raises `FhirError` for no Bundle, `ValueError` for no JSON.
    """
    entries: list[Entry] = []
    total: int | None = None
    next_url: str | None = None
    resource_type = ""
    for name, start, _, value in members(text):
        if name == "resourceType":
            resource_type = value
        elif name == "total" and isinstance(value, int):
            total = value
        elif name == "link" and isinstance(value, list):
            next_url = None
            for link in value:
                if isinstance(link, dict) and link.get("relation") == "next":
                    url = link.get("url")
                    next_url = url if isinstance(url, str) else None
                    break
        elif name == "entry":
            entries = []
            for entry_start, _, _ in items(text, start):
                entries += _read_entry(text, entry_start)
    if resource_type != "Bundle":
        raise FhirError("The server's answer is no Bundle.", 502, "structure")
    return Page(
        query,
        tuple(entries),
        total=total,
        next=next_url,
        count=len(entries),
        server_warnings=warnings,
    )


def _read_entry(text: str, start: int) -> list[Entry]:
    """Return the entry at a position; nothing for one without a resource."""
    if text[start] != "{":
        return []
    resource: Any = None
    resource_text, mode = "", "match"
    for name, value_start, value_end, value in members(text, start):
        if name == "resource":
            resource, resource_text = value, text[value_start:value_end]
        elif name == "search" and isinstance(value, dict):
            mode = str(value.get("mode", "match"))
    if not isinstance(resource, dict):
        return []
    resource_type = str(resource.get("resourceType", ""))
    if resource_type == "OperationOutcome":
        mode = "outcome"
    return [
        Entry(
            resource_type,
            str(resource.get("id", "")),
            resource_text,
            mode,
        )
    ]


def count_codes(resource_type: str, resources: Iterable[Resource]) -> list[CodeCount]:
    """Return the codes of resources of one type, most frequent first.

    For servers that cannot list their codes.
    """
    getters = {}
    for kind, path in elements(resource_type):
        if kind is Kind.TOKEN and is_concept_element(resource_type, path):
            getters[path] = compile_path(path)
    numbers: Counter[tuple[str, CodedTerm]] = Counter()
    for resource in resources:
        terms: set[tuple[str, CodedTerm]] = set()
        for path, values_of in getters.items():
            for value in values_of(resource):
                terms.update((path, term) for term in extract_terms(value))
        numbers.update(terms)
    counts = []
    for (path, term), number in numbers.items():
        code_count = CodeCount(
            type=resource_type,
            element=path,
            system=term.system or "",
            code=term.code or "",
            display=term.text or "",
            count=number,
        )
        counts.append(code_count)

    def sort_key(code: CodeCount) -> tuple[int, str, str, str, str]:
        return -code.count, code.display, code.code, code.system, code.element

    return sorted(counts, key=sort_key)
