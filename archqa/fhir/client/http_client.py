"""A record on any FHIR server, spoken to over HTTP. The same interface as `Store`, so that every agent works on both.

Source: hl7.org/fhir/R4/http.html.
"""

import json
from collections.abc import Iterator
from typing import Any, Self

import httpx2
import stamina

from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.fhir.client.smart import ClientCredentials, FixedToken
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import CodeCount, Page, Resource, SearchParams
from archqa.fhir.search.code_counts import count_codes
from archqa.fhir.server import bundle
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import build_search_url, flatten_params, parse_search_url

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
MOST_BYTES = 256 * 2**20
"""Of one answer."""

MOST_PAGES = 10_000
"""Of one search: a server that links in a circle must end too."""


class _Passing(Exception):
    """The server may do it if asked again."""


class FhirClient:
    """A FHIR server at `base_url`. `tries` and `timeout` (seconds) are for each request. Safe with several threads."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | FixedToken | ClientCredentials | None = None,
        tries: int = 4,
        timeout: float = 60.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.base = base_url.rstrip("/")
        self._token = FixedToken(token) if isinstance(token, str) else token
        self._tries = tries
        # Redirects are not followed: a token must not travel to another address.
        self._http = httpx2.Client(
            base_url=f"{self.base}/",
            timeout=timeout,
            transport=transport,
            headers={"accept": "application/fhir+json"},
        )

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """One resource, or None. Raises `FhirError` and `ServerUnavailable`."""
        if resource_type not in R4_RESOURCE_TYPES:
            raise FhirError(
                f"There is no such resource type.{did_you_mean(resource_type, R4_RESOURCE_TYPES)}",
                404,
                "not-supported",
            )
        try:
            found = json.loads(self.fetch(build_search_url(f"{resource_type}/{resource_id}", ())))
        except FhirError as error:
            if error.status in {404, 410}:
                return None
            raise
        assert isinstance(found, dict)
        return found

    def search(
        self, query: str, params: SearchParams | None = None, *, lenient: bool | None = None
    ) -> Page:
        """One page. `query` may also be the `next` of a page. Raises `FhirError`, `ServerUnavailable`."""
        headers = (
            {} if lenient is None else {"prefer": f"handling={'lenient' if lenient else 'strict'}"}
        )
        if query.startswith(("http://", "https://")):
            return self._page(query, headers)
        path, pairs = parse_search_url(query)
        return self._page(build_search_url(path, [*pairs, *flatten_params(params)]), headers)

    def search_all(self, query: str, params: SearchParams | None = None) -> Iterator[Resource]:
        """The matches of all pages, each resource once. Raises `FhirError` for a server that never ends."""
        page = self.search(query, params)
        asked: set[str] = set()
        seen: set[tuple[str, str]] = set()
        while True:
            for entry in page.entries:
                if entry.mode == "match" and (entry.type, entry.id) not in seen:
                    seen.add((entry.type, entry.id))
                    yield entry.resource
            if page.next is None:
                return
            if page.next in asked or len(asked) >= MOST_PAGES:
                raise FhirError("The server's pages never end.", 502, "throttled")
            asked.add(page.next)
            page = self.search(page.next)

    def everything(self, patient: str) -> Iterator[Resource]:
        """`Patient/{id}/$everything`, all pages."""
        return self.search_all(f"Patient/{patient}/$everything")

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """How many resources of each type there are: one `_summary=count` for each type the server says it has."""
        found = {}
        for name, parameters in self._types().items():
            if patient is not None and name != "Patient" and "patient" not in parameters:
                continue
            params = {"_summary": "count"}
            if patient is not None:
                params["_id" if name == "Patient" else "patient"] = patient
            total = self.search(name, params).total
            if total:
                found[name] = total
        return dict(sorted(found.items()))

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """The codes in resources of the type, most frequent first; every resource is fetched for it."""
        params = {"_count": "1000"}
        if patient is not None:
            params["_id" if resource_type == "Patient" else "patient"] = patient
        return count_codes(resource_type, self.search_all(resource_type, params))

    def create(self, resource: Resource) -> Resource:
        """Store a resource on the server; what was stored. Never asked twice. Raises `FhirError`."""
        resource_type = str(resource.get("resourceType"))
        reply = self._send(
            "POST", resource_type, content=json.dumps(resource, ensure_ascii=False).encode()
        )
        if reply.text.strip().startswith("{"):
            stored = reply.json()
            if isinstance(stored, dict) and stored.get("id"):
                return stored
        parts = reply.headers.get("location", "").removesuffix("/_history/1").rstrip("/").split("/")
        return {**resource, "id": parts[-1]}

    def capabilities(self) -> Resource:
        """The server's CapabilityStatement."""
        found = json.loads(self.fetch("metadata"))
        assert isinstance(found, dict)
        return found

    def fetch(self, url: str, headers: dict[str, str] | None = None) -> str:
        """The body of `GET`, as text; tried again where the fault may pass. Raises `FhirError`, `ServerUnavailable`."""
        try:
            for attempt in stamina.retry_context(on=_Passing, attempts=self._tries, timeout=None):
                with attempt:
                    return self._try(url, headers or {})
        except _Passing as error:
            text = f"The FHIR server at {self.base} does not answer ({error}).\nCheck the address, or try later."
            raise ServerUnavailable(text) from None
        raise AssertionError

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _page(self, url: str, headers: dict[str, str]) -> Page:
        try:
            return bundle.read(self.fetch(self._own(url), headers), url)
        except (ValueError, RecursionError):
            raise FhirError("The server's answer is not JSON.", 502, "structure") from None

    def _own(self, url: str) -> str:
        """The URL, if it leads to this server: a link must not carry the token elsewhere."""
        if not url.startswith(("http://", "https://")):
            return url
        here, there = httpx2.URL(self.base), httpx2.URL(url)
        if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
            raise FhirError(
                "The server's link leads to another address; it was not followed.", 502, "security"
            )
        return url

    def _try(self, url: str, headers: dict[str, str]) -> str:
        try:
            reply = self._send("GET", url, headers=headers)
            return reply.text
        except httpx2.InvalidURL:
            raise FhirError("The search is no valid URL.") from None
        except httpx2.HTTPError as error:
            raise _Passing(type(error).__name__) from None

    def _send(self, method: str, url: str, **content: Any) -> httpx2.Response:
        headers = dict(content.pop("headers", {}))
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token.token(self._http)}"
        if method == "POST":
            headers["content-type"] = "application/fhir+json"
        with self._http.stream(method, url, headers=headers, **content) as reply:
            size, parts = 0, []
            for part in reply.iter_bytes():
                size += len(part)
                if size > MOST_BYTES:
                    raise FhirError("The server's answer is too long.", 502, "too-long")
                parts.append(part)
        found = httpx2.Response(
            reply.status_code, headers=_plain(reply.headers), content=b"".join(parts)
        )
        _check(found, self.base)
        return found

    def _types(self) -> dict[str, set[str]]:
        """The types the server says it has, each with its search parameters."""
        rest = self.capabilities().get("rest") or [{}]
        found = {}
        for each in rest[0].get("resource") or []:
            found[str(each.get("type"))] = {
                str(one.get("name")) for one in each.get("searchParam") or []
            }
        return found


def _plain(headers: httpx2.Headers) -> dict[str, str]:
    """The headers of a body that has been unpacked."""
    return {
        name: value
        for name, value in headers.items()
        if name not in {"content-encoding", "content-length"}
    }


def _check(reply: httpx2.Response, base: str) -> None:
    """Raises what a status means."""
    if reply.status_code < 300:
        return
    if reply.status_code in {401, 403}:
        raise AuthenticationFailed(
            f"The FHIR server at {base} refuses the token.\nCheck it, and what it is allowed to do."
        )
    if reply.status_code in _TRANSIENT:
        raise _Passing(f"HTTP {reply.status_code}")
    raise FhirError(
        _diagnostics(reply) or f"The FHIR server answers HTTP {reply.status_code}.",
        reply.status_code,
    )


def _diagnostics(reply: httpx2.Response) -> list[str]:
    try:
        issues = reply.json()["issue"]
        return [str(each["diagnostics"]) for each in issues if each.get("diagnostics")][:5]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
