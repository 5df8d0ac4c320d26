"""Pages as Bundles, and Bundles as pages. Resources go in and out exactly as they are written.

Source: hl7.org/fhir/R4/bundle.html#searchset.
"""

import base64
import binascii
import json
import uuid
from typing import Any
from urllib.parse import quote

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.record import Entry, Page
from archqa.fhir.values import dates
from archqa.fhir.values.json_spans import items, members
from archqa.fhir.values.urls import build_search_url, parse_search_url


def write(page: Page, base: str, profile: Profile, self_url: str) -> str:
    """A page as a searchset, with links in the way of the profile. `base` has no slash at its end."""
    links = [{"relation": "self", "url": self_url}]
    following = next_url(page, base, profile)
    if following:
        links.append({"relation": "next", "url": following})
    head: dict[str, Any] = {
        "resourceType": "Bundle",
        "id": str(uuid.uuid4()),
        "meta": {"lastUpdated": dates.format_instant(dates.utc_now_microseconds())},
        "type": "searchset",
    }
    if page.total is not None:
        head["total"] = page.total
    text = json.dumps({**head, "link": links}, ensure_ascii=False)
    if not page.entries:
        return text
    entries = ", ".join(_entry(entry, base) for entry in page.entries)
    return f'{text[:-1]}, "entry": [{entries}]}}'


def _entry(entry: Entry, base: str) -> str:
    url = (
        ""
        if entry.mode == "outcome"
        else f'"fullUrl": {json.dumps(f"{base}/{entry.type}/{entry.id}")}, '
    )
    return f'{{{url}"resource": {entry.text}, "search": {{"mode": "{entry.mode}"}}}}'


def next_url(page: Page, base: str, profile: Profile) -> str | None:
    """The link to the next page: readable (archqa), an opaque token (gcp), or a search kept under an id (hapi)."""
    if page.next is None:
        return None
    if profile.name == "archqa":
        return f"{base}/{page.next}"
    path, params = parse_search_url(page.next)
    offset = page.offset + page.count
    kept = [(name, value) for name, value in params if name != "_offset"]
    if profile.name == "gcp":
        token = base64.urlsafe_b64encode(f"offset:{offset}".encode()).decode().rstrip("=")
        return f"{base}/{build_search_url(path, [*kept, ('_page_token', token)])}"
    search = base64.urlsafe_b64encode(build_search_url(path, kept).encode()).decode().rstrip("=")
    return (
        f"{base}?_getpages={quote(search)}&_getpagesoffset={offset}&_count={page.count}"
        "&_format=json&_pretty=true&_bundletype=searchset"
    )


def decode_hapi_page(params: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """The search that a hapi link stands for. Raises `FhirError` (410) if it is none."""
    given = dict(params)
    try:
        path, kept = parse_search_url(_decoded(given.get("_getpages", "")))
    except (ValueError, binascii.Error):
        raise FhirError("The search of this page is not known any more.", 410, "expired") from None
    kept = [(name, value) for name, value in kept if name != "_count"]
    kept += [("_count", given["_count"])] if "_count" in given else []
    return path, [*kept, ("_offset", given.get("_getpagesoffset", "0"))]


def decode_page_token(params: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters with a page token read as the offset it stands for. Raises `FhirError` if it is none."""
    found = []
    for name, value in params:
        if name == "_page_token":
            try:
                word, _, number = _decoded(value).partition(":")
            except (ValueError, binascii.Error):
                word, number = "", ""
            if word != "offset" or not number.isdecimal():
                raise FhirError("The page token is not one of this server's.")
            found.append(("_offset", number))
        else:
            found.append((name, value))
    return found


def _decoded(text: str) -> str:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()


def read(text: str, query: str) -> Page:
    """A searchset as a page. Raises `FhirError` if it is none, `ValueError` if it is no JSON."""
    entries: list[Entry] = []
    total, following = None, None
    kind = ""
    for name, start, _, value in members(text):
        if name == "resourceType":
            kind = value
        elif name == "total" and isinstance(value, int):
            total = value
        elif name == "link" and isinstance(value, list):
            following = _following(value)
        elif name == "entry":
            entries = [
                found for first, _, _ in items(text, start) if (found := _read_entry(text, first))
            ]
    if kind != "Bundle":
        raise FhirError("The server's answer is no Bundle.", 502, "structure")
    return Page(
        query=query, entries=tuple(entries), total=total, next=following, count=len(entries)
    )


def _following(links: list[Any]) -> str | None:
    found = [
        link.get("url")
        for link in links
        if isinstance(link, dict) and link.get("relation") == "next"
    ]
    return found[0] if found and isinstance(found[0], str) else None


def _read_entry(text: str, start: int) -> Entry | None:
    """One entry; None for one without a resource."""
    if text[start] != "{":
        return None
    span, resource, mode = "", None, "match"
    for name, first, last, value in members(text, start):
        if name == "resource":
            span, resource = text[first:last], value
        elif name == "search" and isinstance(value, dict):
            mode = str(value.get("mode", "match"))
    if not isinstance(resource, dict):
        return None
    kind = str(resource.get("resourceType", ""))
    return Entry(
        kind, str(resource.get("id", "")), span, "outcome" if kind == "OperationOutcome" else mode
    )
