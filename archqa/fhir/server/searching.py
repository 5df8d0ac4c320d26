"""Answer searches, the further pages of them, and `$everything`.

Sources: hl7.org/fhir/R4/http.html#search, operations.html#executing,
patient-operation-everything.html, encounter-operation-everything.html.
"""

import json
from dataclasses import replace

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import ARCHQA, GCP
from archqa.fhir.record import Page
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.search.outcome_entry import outcome_entries
from archqa.fhir.search.unsupported import without_ignored
from archqa.fhir.server.capability import largest_page
from archqa.fhir.server.context import FhirResponse, RequestContext
from archqa.fhir.server.negotiation import (
    READ_PARAMETERS,
    check_formats,
    preferred_handling,
    supported_parameters,
    warning_header,
)
from archqa.fhir.server.searchset import (
    decode_hapi_page,
    decode_page_token,
    write_searchset,
    write_searchset_chunks,
)
from archqa.fhir.values.references import parse_path
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import (
    MAX_PARAMETERS,
    Params,
    build_search_url,
    parse_query_string,
    with_count,
)

_EVERYTHING = READ_PARAMETERS | {"_count", "_offset", "_page_token", "_since", "_type"}
_EVERYTHING_PARAMETERS = {"Patient": _EVERYTHING | {"start", "end"}, "Encounter": _EVERYTHING}


def search(context: RequestContext) -> FhirResponse:
    """Answer a search of a type, perhaps within a compartment, by GET or POST of a form."""
    params = context.params
    if context.path.action == "_search":
        form = parse_query_string(context.body)
        check_formats(form)
        params = [*params, *form]
    if not context.path.type:
        raise FhirError("Name a resource type: Observation?patient=…", 400, "not-supported")
    return _search(context, str(context.path), params)


def read_page(context: RequestContext) -> FhirResponse:
    """Answer `GET` of the base itself: hapi's links to further pages."""
    if "_getpages" not in dict(context.params):
        return search(context)
    path, params = decode_hapi_page(context.params)
    return search(replace(context, path=parse_path(path), params=params))


def _search(context: RequestContext, path: str, params: Params) -> FhirResponse:
    query = build_search_url(path, decode_page_token(params))
    page = context.record.search(query, lenient=preferred_handling(context.headers))
    linked = without_ignored(params, page.ignored)
    self_url = f"{context.base}/{build_search_url(path, with_count(linked, page.count))}"
    reply_headers = warning_header(page.warned)
    if page.later is not None:
        chunks = write_searchset_chunks(page, context.base, context.profile, self_url)
        return FhirResponse(200, "", reply_headers, chunks=chunks)
    text = write_searchset(page, context.base, context.profile, self_url)
    return FhirResponse(200, text, reply_headers)


def everything(context: RequestContext) -> FhirResponse:
    """Answer `Patient/[id]/$everything` or `Encounter/[id]/$everything`."""
    owner = context.path
    known = _EVERYTHING_PARAMETERS[owner.type]
    given = [*context.params, *_operation_params(context)]
    check_formats(given)
    subject = f"The $everything of {owner.type}"
    params, ignored = supported_parameters(context, given, known, subject)
    request = EverythingRequest.from_params(decode_page_token(params))
    largest = largest_page(context.profile)
    notices = [f"_count is at most {largest}."] if request.count > largest else []
    request = replace(request, count=min(request.count, largest))
    page: Page = context.record.everything_page(owner.id, request, owner.type)
    page = replace(page, entries=(*page.entries, *outcome_entries(ignored.remarks, notices)))
    self_url = build_search_url(str(owner), with_count(params, page.count))
    # An operation cannot use hapi's links, which are for searches.
    links = GCP if context.profile is GCP else ARCHQA
    text = write_searchset(page, context.base, links, f"{context.base}/{self_url}")
    return FhirResponse(200, text, warning_header(ignored.warned))


def _operation_params(context: RequestContext) -> Params:
    """Return the parameters of the body: a form, or a Parameters resource of simple values.

    Raises `FhirError` with every mistake.
    """
    body = context.body.strip()
    content_type = context.headers.get("content-type", "").partition(";")[0].strip().lower()
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
        limit = f"An operation takes at most {MAX_PARAMETERS} parameters."
        raise FhirError(limit, 400, "too-costly")
    params: Params = []
    mistakes: list[str] = []
    for part in parts:
        name = part.get("name") if isinstance(part, dict) else None
        if not isinstance(name, str) or not name:
            mistakes.append("A parameter needs a name.")
            continue
        values = [value for member, value in part.items() if member.startswith("value")]
        if len(values) != 1 or not isinstance(values[0], str | int | float):
            mistakes.append(f"The parameter {quotable(name)} needs one simple value, as in a URL.")
            continue
        (value,) = values
        params.append((name, value if isinstance(value, str) else json.dumps(value)))
    if mistakes:
        raise FhirError(mistakes)
    return params
