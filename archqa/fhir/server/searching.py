"""Answer searches, the further pages of them, and `$everything`, as searchset Bundles.

Resources keep their exact text. Sources: hl7.org/fhir/R4/http.html#search, bundle.html#searchset,
operations.html#executing, patient-operation-everything.html, encounter-operation-everything.html.
"""

import base64
import binascii
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any
from urllib.parse import quote

from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.record import FhirError, Page, member_of
from archqa.fhir.search.everything import EverythingRequest
from archqa.fhir.search.query import without_ignored
from archqa.fhir.search.searcher import outcome_entries
from archqa.fhir.server.capability import largest_page
from archqa.fhir.server.context import FhirResponse, RequestContext
from archqa.fhir.server.negotiation import (
    READ_PARAMETERS,
    check_formats,
    preferred_handling,
    supported_parameters,
    warning_header,
)
from archqa.fhir.values import dates
from archqa.fhir.values.json_text import InvalidBody, parse_request_body
from archqa.fhir.values.names import names_in
from archqa.fhir.values.references import parse_path
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import (
    MAX_PARAMETERS,
    Params,
    build_search_url,
    parse_query_string,
    parse_search_url,
    with_count,
)

_EVERYTHING = READ_PARAMETERS | {"_count", "_offset", "_page_token", "_since", "_type"}
_EVERYTHING_PARAMETERS = {
    "Patient": _EVERYTHING | {"start", "end"},
    "Encounter": _EVERYTHING,
}

_HAPI_LINK = names_in("hapi link")
"""The parameters of hapi's links."""


def search(context: RequestContext) -> FhirResponse:
    """Answer a search of a type, perhaps within a compartment, by GET or POST of a form."""
    params = context.params
    if context.path.action == "_search":
        form = parse_query_string(context.body)
        check_formats(form)
        params = [*params, *form]
    if not context.path.type:
        raise FhirError(
            "Name a resource type: Observation?patient=…", 400, "not-supported"
        )
    path = str(context.path)
    query = build_search_url(path, _decode_page_token(params))
    page = context.record.search(query, lenient=preferred_handling(context.headers))
    linked = without_ignored(params, page.ignored)
    self_url = build_search_url(path, with_count(linked, page.count))
    headers = warning_header(page.warned)
    chunks = _write_searchset(
        page,
        context.base,
        context.profile,
        self_url,
    )
    if page.later is not None:
        return FhirResponse(
            200,
            "",
            headers,
            chunks=chunks,
        )
    return FhirResponse(200, "".join(chunks), headers)


def read_page(context: RequestContext) -> FhirResponse:
    """Answer `GET` of the base itself: hapi's links to further pages.

    Raises `FhirError` (410) if the search of a link is not known.
    """
    values = dict(context.params)
    if "_getpages" not in values:
        return search(context)
    try:
        path, params = parse_search_url(_decode(values["_getpages"]))
    except (ValueError, binascii.Error):
        raise FhirError(
            "The search of this page is not known any more.", 410, "expired"
        ) from None
    params = [(name, value) for name, value in params if name != "_count"]
    if "_count" in values:
        params.append(("_count", values["_count"]))
    params.append(("_offset", values.get("_getpagesoffset", "0")))
    # What such a link does not have goes with the search, which says so.
    params += [
        (name, value) for name, value in context.params if name not in _HAPI_LINK
    ]
    return search(replace(context, path=parse_path(path), params=params))


def everything(context: RequestContext) -> FhirResponse:
    """Answer `Patient/[id]/$everything` or `Encounter/[id]/$everything`."""
    owner = context.path
    known = _EVERYTHING_PARAMETERS[owner.type]
    all_params = [*context.params, *_operation_params(context)]
    check_formats(all_params)
    params, ignored = supported_parameters(
        context,
        all_params,
        known,
        f"The $everything of {owner.type}",
    )
    request = EverythingRequest.from_params(_decode_page_token(params))
    largest = largest_page(context.profile)
    notices = [f"_count is at most {largest}."] if request.count > largest else []
    request = replace(request, count=min(request.count, largest))
    page = context.record.everything_page(owner.id, request, owner.type)
    page = replace(
        page, entries=(*page.entries, *outcome_entries(ignored.remarks, notices))
    )
    self_url = build_search_url(str(owner), with_count(params, page.count))
    # An operation cannot use hapi's links, which are for searches.
    links = GCP if context.profile is GCP else ARCHQA
    text = "".join(
        _write_searchset(
            page,
            context.base,
            links,
            self_url,
        )
    )
    return FhirResponse(200, text, warning_header(ignored.warned))


def _operation_params(context: RequestContext) -> Params:
    """Return the parameters of the body: a form, or a Parameters resource of simple values.

    Raises `FhirError` with every mistake.
    """
    body = context.body.strip()
    content_type = (
        context.headers.get("content-type", "").partition(";")[0].strip().lower()
    )
    is_form = content_type == "application/x-www-form-urlencoded"
    if not body or is_form or not (content_type or body.startswith("{")):
        return parse_query_string(context.body)
    try:
        resource = parse_request_body(context.body)
    except InvalidBody as error:
        raise FhirError(f"The body {error}") from None
    if not isinstance(resource, dict) or resource.get("resourceType") != "Parameters":
        raise FhirError("The body must be a Parameters resource, or a form.")
    parts = resource.get("parameter", [])
    if not isinstance(parts, list):
        raise FhirError("parameter must be a list.")
    if len(parts) > MAX_PARAMETERS:
        raise FhirError(
            f"An operation takes at most {MAX_PARAMETERS} parameters.",
            400,
            "too-costly",
        )
    params: Params = []
    mistakes: list[str] = []
    for part in parts:
        name = member_of(part, "name")
        if not isinstance(name, str) or not name:
            mistakes.append("A parameter needs a name.")
            continue
        values = [value for member, value in part.items() if member.startswith("value")]
        if len(values) != 1 or not isinstance(values[0], str | int | float):
            mistakes.append(
                f"The parameter {quotable(name)} needs one simple value, as in a URL."
            )
            continue
        (value,) = values
        params.append((name, value if isinstance(value, str) else json.dumps(value)))
    if mistakes:
        raise FhirError(mistakes)
    return params


def _write_searchset(
    page: Page,
    base: str,
    links: Profile,
    self_url: str,
) -> Iterator[str]:
    """Yield the text of a page as a searchset with the links of a profile.

    Matches may be read while it is written. `self_url` is relative to the base.
    """
    bundle: dict[str, Any] = {
        "resourceType": "Bundle",
        "id": str(uuid.uuid4()),
        "meta": {"lastUpdated": dates.format_instant(dates.utc_now_microseconds())},
        "type": "searchset",
    }
    if page.total is not None:
        bundle["total"] = page.total
    bundle["link"] = [{"relation": "self", "url": f"{base}/{self_url}"}]
    if page.next is not None:
        url = _next_url(
            page,
            page.next,
            base,
            links,
        )
        bundle["link"].append({"relation": "next", "url": url})
    text = json.dumps(bundle, ensure_ascii=False)
    separator = f'{text[:-1]}, "entry": ['
    has_entries = False
    for entries in chain(page.later or (), [page.entries]):
        texts = []
        for entry in entries:
            content = f'"resource": {entry.text}, "search": {{"mode": "{entry.mode}"}}'
            if entry.mode != "outcome":
                full_url = json.dumps(f"{base}/{entry.type}/{entry.id}")
                content = f'"fullUrl": {full_url}, {content}'
            texts.append(f"{{{content}}}")
        if texts:
            yield separator + ", ".join(texts)
            separator = ", "
            has_entries = True
    yield "]}" if has_entries else text


def _next_url(
    page: Page,
    following: str,
    base: str,
    links: Profile,
) -> str:
    """Return the link to the next page.

    It is readable (archqa), an opaque token (gcp), or a search stored under an id (hapi).
    """
    if links.name == "archqa":
        return f"{base}/{following}"
    path, params = parse_search_url(following)
    params = [(name, value) for name, value in params if name != "_offset"]
    offset = page.offset + page.count
    if links.name == "gcp":
        token = _encode(f"offset:{offset}")
        return f"{base}/{build_search_url(path, [*params, ('_page_token', token)])}"
    search_id = _encode(build_search_url(path, params))
    return (
        f"{base}?_getpages={quote(search_id)}&_getpagesoffset={offset}&_count={page.count}"
        "&_format=json&_pretty=true&_bundletype=searchset"
    )


def _decode_page_token(params: Params) -> Params:
    """Replace a page token by its offset. Raises `FhirError` for a token of another server."""
    decoded = []
    for name, value in params:
        if name == "_page_token":
            try:
                label, _, offset = _decode(value).partition(":")
            except (ValueError, binascii.Error):
                label, offset = "", ""
            if label != "offset" or not offset.isdecimal():
                raise FhirError("The page token is not one of this server's.")
            decoded.append(("_offset", offset))
        else:
            decoded.append((name, value))
    return decoded


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(text: str) -> str:
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True).decode()
