"""A record on any FHIR server over HTTP, with the same interface as `Store`.

Sources: hl7.org/fhir/R4/http.html, bundle.html#searchset.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Self
from urllib.parse import quote

import httpx2
import stamina

from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.fhir.client.exchange import (
    Reply,
    TransientFailure,
    checked_address,
    exchange,
    open_http,
    request_url,
)
from archqa.fhir.client.smart import BackendService, ClientCredentials, FixedToken
from archqa.fhir.record import (
    CodeCount,
    Entry,
    FhirError,
    Page,
    Resource,
    SearchParams,
    all_pages,
    objects_of,
)
from archqa.fhir.values.element_values import CodedTerm, compile_path, extract_terms
from archqa.fhir.values.json_text import items, members
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.resource_types import check_resource_type
from archqa.fhir.values.search_parameters import (
    Kind,
    elements,
    is_concept_element,
    parameters,
)
from archqa.fhir.values.urls import build_search_url, parse_search_url
from archqa.safety.server_urls import is_server_url
from archqa.safety.text import without_surrogates

TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

MAX_REPLY_BYTES = 256 * 2**20
"""Bytes of one reply."""

_MAX_WARNINGS = 5
"""Warnings of a reply that are shown."""

_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
"""One value of a `Warning` header; the text is the group (RFC 7234, 5.5)."""


class AccessForbidden(AuthenticationFailed):
    """The token does not allow a request."""

    status = 403


class ServerError(ServerUnavailable):
    """The server answers, but keeps failing at a request."""

    status = 500


class FhirClient:
    """A FHIR server at `base_url`. Safe to use from several threads.

    `tries` attempts are made for each read, each with `timeout` seconds in all. Raises `CallerError` for a
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
        check_resource_type(resource_type)
        try:
            reply = self._reply(f"{resource_type}/{_quoted(resource_id)}", {})
        except FhirError as error:
            if error.status in {404, 410}:
                return None
            raise
        return _resource(reply)

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
        url = build_search_url(*parse_search_url(query, params))
        return self._page(url, headers)

    def search_all(
        self, query: str, params: SearchParams | None = None
    ) -> Iterator[Resource]:
        """Yield the matches of all pages, each resource once.

        Raises `FhirError` if the server's pages never end.
        """
        entries = self.matches(query, params)
        return (entry.resource for entry in entries)

    def matches(
        self, query: str, params: SearchParams | None = None
    ) -> Iterator[Entry]:
        """Yield the same as entries, with their exact texts."""
        yielded: set[tuple[str, str]] = set()
        for page in all_pages(self, self.search(query, params)):
            for entry in page.entries:
                key = (entry.type, entry.id)
                if entry.mode == "match" and key not in yielded:
                    yielded.add(key)
                    yield entry

    def everything(self, patient: str) -> Iterator[Resource]:
        """Yield all pages of `Patient/{id}/$everything`."""
        return self.search_all(f"Patient/{_quoted(patient)}/$everything")

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """Return the number of resources of each type that the server's capabilities name.

        Sends one `_summary=count` for each type.
        """
        declared_types = []
        for rest in objects_of(self.capabilities(), "rest")[:1]:
            declared_types = objects_of(rest, "resource")
        counts = {}
        for declared in declared_types:
            resource_type = str(declared.get("type"))
            names = {
                str(item.get("name")) for item in objects_of(declared, "searchParam")
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
        check_resource_type(resource_type)
        body = json.dumps(resource).encode()
        try:
            reply = self._send("POST", resource_type, content=body)
        except TransientFailure as error:
            failure = (
                f"The FHIR server at {self.base} did not confirm a write ({error})."
            )
            raise ServerUnavailable(f"{failure}\nCheck whether it is stored.") from None
        with suppress(FhirError):
            stored = _resource(reply)
            if stored.get("id"):
                return stored
        target = parse_reference(reply.headers.get("location", "").rstrip("/"))
        return {**resource, "id": target.id if target else ""}

    def capabilities(self) -> Resource:
        """Return the server's CapabilityStatement."""
        return _resource(self._reply("metadata", {}))

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

    def _reply(self, url: str, headers: dict[str, str]) -> Reply:
        attempts = stamina.retry_context(
            on=TransientFailure, attempts=self._tries, timeout=None
        )
        try:
            for attempt in attempts:
                with attempt:
                    return self._send("GET", url, headers=headers)
        except TransientFailure as error:
            failure = f"The FHIR server at {self.base} does not answer ({error})."
            is_internal = error.status == ServerError.status
            raised = ServerError if is_internal else ServerUnavailable
            raise raised(f"{failure}\nCheck the address, or try later.") from None
        raise AssertionError

    def _page(self, url: str, headers: dict[str, str]) -> Page:
        reply = self._reply(url, headers)
        # The texts of `Warning` headers.
        warnings = _WARNING.findall(reply.headers.get("warning", ""))[:_MAX_WARNINGS]
        return _read_searchset(reply, url, tuple(warnings))

    def _send(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> Reply:
        headers = dict(headers or {})
        if method == "POST":
            headers["content-type"] = "application/fhir+json"
        request = self._http.build_request(
            method,
            request_url(self.base, url),
            headers=headers,
            content=content,
        )
        if self._token is not None:
            request.headers["authorization"] = self._token.authorization(self._http)
        reply = exchange(self._http, request, MAX_REPLY_BYTES)
        status = reply.status
        if status in {401, 403}:
            refusal = f"The FHIR server at {self.base} refuses the token."
            advice = "Check it, and what it is allowed to do; archqa takes it from ARCHQA_FHIR_TOKEN."
            refused = AccessForbidden if status == 403 else AuthenticationFailed
            raise refused(f"{refusal}\n{advice}")
        if status in TRANSIENT_STATUSES:
            raise TransientFailure(f"HTTP {status}", status=status)
        if status >= 300:
            default = f"The FHIR server answers HTTP {status}."
            raise FhirError(reply.diagnostics() or default, status)
        return reply


def _quoted(resource_id: str) -> str:
    """Return an id as one part of a path."""
    return quote(resource_id, safe="", errors="replace")


def _of_patient(resource_type: str, patient: str | None) -> dict[str, str]:
    """Return the search parameter that limits a type to one patient."""
    if patient is None:
        return {}
    name = "_id" if resource_type == "Patient" else "patient"
    return {name: patient}


def _resource(reply: Reply) -> Resource:
    resource = reply.json()
    if not isinstance(resource, dict):
        raise FhirError("The server's answer is no resource.", 502, "structure")
    return resource


def _read_searchset(reply: Reply, query: str, warnings: tuple[str, ...]) -> Page:
    """Return a searchset as a page; resources keep their exact text.

    Raises `FhirError` for no Bundle.
    """
    bundle = reply.json()
    is_bundle = isinstance(bundle, dict) and bundle.get("resourceType") == "Bundle"
    if not is_bundle or not isinstance(bundle.get("entry", []), list):
        raise FhirError("The server's answer is no Bundle.", 502, "structure")
    total = bundle.get("total")
    next_url: str | None = None
    for link in objects_of(bundle, "link"):
        if link.get("relation") == "next":
            url = link.get("url")
            next_url = without_surrogates(url) if isinstance(url, str) else None
            break
    text = reply.text
    starts = [start for name, start, _, _ in members(text) if name == "entry"]
    entries: list[Entry] = []
    # Of members of the same name the last one counts, as for `reply.json`.
    for start in starts[-1:]:
        for entry_start, _, _ in items(text, start):
            entries += _read_entry(text, entry_start)
    return Page(
        query,
        tuple(entries),
        total=total if isinstance(total, int) else None,
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
