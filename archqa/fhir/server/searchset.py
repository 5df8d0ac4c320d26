"""Write pages as searchset Bundles, and read the links of a page. Resources keep their exact text.

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
from archqa.fhir.values.urls import Params, build_search_url, parse_search_url


def write_searchset(
    page: Page,
    base: str,
    profile: Profile,
    self_url: str,
) -> str:
    """Return a page as a searchset with the profile's links. `base` does not end with a slash."""
    links = [{"relation": "self", "url": self_url}]
    following_url = next_url(page, base, profile)
    if following_url:
        links.append({"relation": "next", "url": following_url})
    bundle: dict[str, Any] = {
        "resourceType": "Bundle",
        "id": str(uuid.uuid4()),
        "meta": {"lastUpdated": dates.format_instant(dates.utc_now_microseconds())},
        "type": "searchset",
    }
    if page.total is not None:
        bundle["total"] = page.total
    bundle["link"] = links
    text = json.dumps(bundle, ensure_ascii=False)
    if not page.entries:
        return text
    entries = ", ".join(_entry_text(entry, base) for entry in page.entries)
    return f'{text[:-1]}, "entry": [{entries}]}}'


def _entry_text(entry: Entry, base: str) -> str:
    text = f'"resource": {entry.text}, "search": {{"mode": "{entry.mode}"}}'
    if entry.mode == "outcome":
        return f"{{{text}}}"
    full_url = json.dumps(f"{base}/{entry.type}/{entry.id}")
    return f'{{"fullUrl": {full_url}, {text}}}'


def next_url(page: Page, base: str, profile: Profile) -> str | None:
    """Return the link to the next page.

    It is readable (archqa), an opaque token (gcp), or a search stored under an id (hapi).
    """
    if page.next is None:
        return None
    if profile.name == "archqa":
        return f"{base}/{page.next}"
    path, params = parse_search_url(page.next)
    params = [(name, value) for name, value in params if name != "_offset"]
    offset = page.offset + page.count
    if profile.name == "gcp":
        token = _encode(f"offset:{offset}")
        return f"{base}/{build_search_url(path, [*params, ('_page_token', token)])}"
    search = _encode(build_search_url(path, params))
    return (
        f"{base}?_getpages={quote(search)}&_getpagesoffset={offset}&_count={page.count}"
        "&_format=json&_pretty=true&_bundletype=searchset"
    )


_HAPI_LINK = {"_getpages", "_getpagesoffset", "_count", "_format", "_pretty", "_bundletype"}
"""The parameters of hapi's links."""


def decode_hapi_page(params: Params) -> tuple[str, Params]:
    """Return the search of a hapi link. Raises `FhirError` (410) if it is none."""
    values = dict(params)
    try:
        path, search_params = parse_search_url(_decode(values.get("_getpages", "")))
    except (ValueError, binascii.Error):
        raise FhirError("The search of this page is not known any more.", 410, "expired") from None
    search_params = [(name, value) for name, value in search_params if name != "_count"]
    if "_count" in values:
        search_params.append(("_count", values["_count"]))
    search_params.append(("_offset", values.get("_getpagesoffset", "0")))
    # What such a link does not have goes with the search, which says so.
    search_params += [(name, value) for name, value in params if name not in _HAPI_LINK]
    return path, search_params


def decode_page_token(params: Params) -> Params:
    """Replace a page token by its offset. Raises `FhirError` for a token of another server."""
    decoded = []
    for name, value in params:
        if name == "_page_token":
            decoded.append(("_offset", _offset_of(value)))
        else:
            decoded.append((name, value))
    return decoded


def _offset_of(token: str) -> str:
    try:
        label, _, offset = _decode(token).partition(":")
    except (ValueError, binascii.Error):
        label, offset = "", ""
    if label != "offset" or not offset.isdecimal():
        raise FhirError("The page token is not one of this server's.")
    return offset


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(text: str) -> str:
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True).decode()
