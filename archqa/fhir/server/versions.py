"""Versions over HTTP: ETag and Last-Modified, conditional reads, vread, history.

Source: hl7.org/fhir/R4/http.html#versioning, #cread, #vread, #history.
"""

import json
import re
import uuid
from typing import NamedTuple

from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.record import Page
from archqa.fhir.search.versions import HistoryPage, HistoryRequest, ResourceVersion
from archqa.fhir.server.http_dates import format_http_date, parse_http_date
from archqa.fhir.server.response import Headers
from archqa.fhir.server.searchset import decode_page_token, next_url
from archqa.fhir.values import dates
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params, build_search_url, with_count

_HISTORY = "_history"
_ENTITY_TAG = re.compile(r'\*|(?:W/)?"[^"]*"|[^\s,"]+')
_FORMATS = {"_format", "_pretty"}
_HISTORY_PARAMETERS = ("_at", "_count", "_since")


class Validators(NamedTuple):
    """What a read tells about the version that it returns, and whether the client has it already.

    `headers` is empty for a URL that names no resource or version.
    """

    is_known: bool = False
    headers: dict[str, str] = {}


def validators(record: LocalRecord, path: str, headers: Headers) -> Validators:
    """Return the validators of a read or vread; the path must have been answered before."""
    parts = path.split("/")
    is_read = len(parts) == 2 and parts[0] in R4_RESOURCE_TYPES
    is_vread = len(parts) == 4 and parts[2] == _HISTORY
    version = None
    if (is_read and parts[1] != _HISTORY) or is_vread:
        version = record.version(parts[0], parts[1])
    if version is None:
        return Validators()
    return Validators(_is_known(version, headers), version_headers(version))


def version_headers(version: ResourceVersion) -> dict[str, str]:
    """Return `ETag` and `Last-Modified`."""
    headers = {"etag": entity_tag(version)}
    modified = format_http_date(version.updated)
    if modified:
        headers["last-modified"] = modified
    return headers


def entity_tag(version: ResourceVersion) -> str:
    """Return the weak entity tag of a version."""
    return f'W/"{version.version}"'


def matches_entity_tag(version: ResourceVersion, condition: str) -> bool:
    """Whether a list of entity tags, or `*`, has this version; a bare version id is understood."""
    for tag in _ENTITY_TAG.findall(condition):
        if tag == "*" or tag.removeprefix("W/").strip('"') == version.version:
            return True
    return False


def _is_known(version: ResourceVersion, headers: Headers) -> bool:
    """Whether the client has this version (RFC 9110, section 13.2.2: a tag outweighs a date)."""
    tags = headers.get("if-none-match")
    if tags is not None:
        return matches_entity_tag(version, tags)
    since = parse_http_date(headers.get("if-modified-since", ""))
    return since is not None and version.updated // dates.SECOND <= since // dates.SECOND


def is_history(path: str) -> bool:
    """Whether a path asks for a version or a history."""
    return _HISTORY in path.split("/")


def read_history(
    record: LocalRecord,
    path: str,
    params: Params,
    base: str,
    profile: Profile,
    max_count: int,
) -> str:
    """Return a version (`Type/id/_history/vid`) or a Bundle with the history of a path.

    `profile` decides the form of links. Raises `FhirError`.
    """
    parts = path.split("/")
    if len(parts) == 4 and parts[2] == _HISTORY:
        return _vread(record, parts, params)
    *scope, last = parts
    if last != _HISTORY or len(scope) > 2:
        message = "A history is asked for as Type/id/_history, Type/_history or _history."
        raise FhirError(message, 404, "not-supported")
    for name in scope[:1]:
        record.check_type(name)
    request = _history_request(scope, decode_page_token(params), profile, max_count)
    page = record.history(request)
    if len(scope) == 2 and not page.total and record.version(*scope) is None:
        raise _absent(scope[0])
    return _write_history(page, _Links(path, params, base, profile, request))


def _vread(record: LocalRecord, parts: list[str], params: Params) -> str:
    resource_type, resource_id, _, wanted = parts
    unsupported = [name for name, _ in params if name not in _FORMATS]
    if unsupported:
        raise FhirError([_no_parameter("A read of a version", name, "") for name in unsupported])
    version = record.version(resource_type, resource_id)
    if version is None:
        raise _absent(resource_type)
    if version.version != wanted:
        message = f"The record has no such version of this {resource_type}, but its last one."
        raise FhirError(f"{message} See {resource_type}/id/_history.", 404, "not-found")
    text = record.text(resource_type, resource_id)
    assert text is not None
    return text


def _absent(resource_type: str) -> FhirError:
    return FhirError(f"There is no {resource_type} of that id.", 404, "not-found")


def _no_parameter(what: str, name: str, known: str) -> str:
    hint = f" It has {known}." if known else ""
    return f"{what} has no parameter {quotable(name)}.{hint}"


def _history_request(
    scope: list[str], params: Params, profile: Profile, max_count: int
) -> HistoryRequest:
    """Parse the parameters of a history. Raises `FhirError` with every mistake."""
    numbers = {"_count": profile.default_count, "_offset": 0}
    moments: dict[str, int] = {}
    mistakes = []
    for name, value in params:
        moment = dates.parse_time_range(value)
        if name in numbers:
            if value.isdecimal() and len(value) < 10:
                numbers[name] = int(value)
            else:
                mistakes.append(f"{name} must be a whole number.")
        elif name in {"_since", "_at"}:
            if moment is None:
                mistakes.append(f"{name} must be a date or an instant like 2180-08-06T20:35:00Z.")
            else:
                moments[name] = moment.low_utc if name == "_since" else moment.high_utc
        elif name not in _FORMATS:
            known = ", ".join(_HISTORY_PARAMETERS)
            mistakes.append(_no_parameter("A history", name, known))
    if mistakes:
        raise FhirError(mistakes)
    return HistoryRequest(
        type=scope[0] if scope else None,
        id=scope[1] if len(scope) == 2 else None,
        since=moments.get("_since"),
        until=moments.get("_at"),
        count=min(numbers["_count"], max_count),
        offset=numbers["_offset"],
    )


class _Links(NamedTuple):
    """What the links of a page of history are made of."""

    path: str
    params: Params
    base: str
    profile: Profile
    request: HistoryRequest

    def write(self, page: HistoryPage) -> list[dict[str, str]]:
        """Return the links to this page and to the next one."""
        own = build_search_url(self.path, with_count(self.params, self.request.count))
        links = [{"relation": "self", "url": f"{self.base}/{own}"}]
        next_page = self._next(page) if page.has_next and page.versions else None
        if next_page:
            links.append({"relation": "next", "url": next_page})
        return links

    def _next(self, page: HistoryPage) -> str | None:
        """Return the link to the next page: it begins after the last version of this one."""
        placed = {"_count", "_offset", "_page_token"}
        params = [(name, value) for name, value in self.params if name not in placed]
        offset = self.request.offset + len(page.versions)
        numbers = [("_count", str(self.request.count)), ("_offset", str(offset))]
        following = build_search_url(self.path, [*params, *numbers])
        described = Page(
            query=self.path, next=following, offset=self.request.offset, count=len(page.versions)
        )
        return next_url(described, self.base, self.profile)


def _write_history(page: HistoryPage, links: _Links) -> str:
    bundle = {
        "resourceType": "Bundle",
        "id": str(uuid.uuid4()),
        "meta": {"lastUpdated": dates.format_instant(dates.utc_now_microseconds())},
        "type": "history",
        "total": page.total,
        "link": links.write(page),
    }
    text = json.dumps(bundle, ensure_ascii=False)
    if not page.versions:
        return text
    entries = ", ".join(_entry_text(version, links.base) for version in page.versions)
    return f'{text[:-1]}, "entry": [{entries}]}}'


def _entry_text(version: ResourceVersion, base: str) -> str:
    """Return an entry; the first version is one that was created, later ones were put there."""
    is_first = version.version == "1"
    method, url = ("POST", version.type) if is_first else ("PUT", version.reference)
    described = {
        "request": {"method": method, "url": url},
        "response": {
            "status": "201" if is_first else "200",
            "lastModified": dates.format_instant(version.updated),
            "etag": entity_tag(version),
        },
    }
    full_url = json.dumps(f"{base}/{version.reference}")
    head = f'"fullUrl": {full_url}, "resource": {version.text}'
    return f"{{{head}, {json.dumps(described)[1:]}"
