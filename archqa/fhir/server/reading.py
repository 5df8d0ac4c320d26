"""Answer reads: a resource, a version of it, the server's capabilities.

Reads carry the version (`ETag`) and its time, and are answered with 304 if the client has it.
Sources: hl7.org/fhir/R4/http.html#read, #vread, #cread, #versioning, #capabilities; RFC 9110,
sections 5.6.7 (dates) and 13 (conditions).
"""

import datetime
import json
import re
from email.utils import format_datetime, parsedate_to_datetime

from archqa.fhir.index.blobs import StoredResource
from archqa.fhir.record import FhirError
from archqa.fhir.request_budget import count_resource
from archqa.fhir.search.query import (
    WHOLE,
    Ignored,
    Subset,
    UnsupportedFeature,
    part_of_resource,
)
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.server.capability import capability_statement
from archqa.fhir.server.context import FhirResponse, Headers, RequestContext
from archqa.fhir.server.negotiation import (
    GENERAL_PARAMETERS,
    READ_PARAMETERS,
    ignored_header,
    supported_parameters,
)
from archqa.fhir.values import dates
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params

_ENTITY_TAG = re.compile(r'\*|(?:W/)?"[^"]*"|[^\s,"]+')


def read(context: RequestContext) -> FhirResponse:
    """Answer `GET Type/id`, or the part of the resource that `_elements` or `_summary` name."""
    resource_type = context.path.type
    params, ignored = supported_parameters(
        context,
        context.params,
        READ_PARAMETERS,
        "A read",
    )
    subset = _requested_subset(
        context,
        params,
        resource_type,
        ignored,
    )
    resource = _existing(context)
    return _versioned(
        context,
        resource,
        part_of_resource(resource.text, resource_type, subset),
        ignored_header(ignored),
    )


def read_version(context: RequestContext) -> FhirResponse:
    """Answer `GET Type/id/_history/version`: the record has the last version alone."""
    mistakes = []
    for name, _ in context.params:
        if name not in GENERAL_PARAMETERS:
            mistakes.append(f"A read of a version has no parameter {quotable(name)}.")
    if mistakes:
        raise FhirError(mistakes)
    resource = _existing(context)
    if resource.version != context.path.version:
        raise FhirError(
            f"The record has no such version of this {resource.type}, but its last one.",
            404,
            "not-found",
        )
    return _versioned(
        context,
        resource,
        resource.text,
        {},
    )


def read_metadata(context: RequestContext) -> FhirResponse:
    """Answer `GET metadata`; of the modes there is `full` alone."""
    resource_type = "CapabilityStatement"
    known = READ_PARAMETERS | {"mode"}
    params, ignored = supported_parameters(
        context,
        context.params,
        known,
        resource_type,
    )
    for name, value in params:
        if name == "mode" and value not in {"", "full"}:
            problem = "Of the modes of metadata there is full here, and no other."
            if not ignored.add(UnsupportedFeature(problem), (name, value)):
                raise FhirError(problem)
    subset = _requested_subset(
        context,
        params,
        resource_type,
        ignored,
    )
    types = list(context.record.counts())
    statement = capability_statement(
        context.base,
        types,
        context.profile,
        context.writer.mode,
    )
    text = part_of_resource(json.dumps(statement), resource_type, subset)
    count_resource(text)
    return FhirResponse(200, text, ignored_header(ignored))


def _requested_subset(
    context: RequestContext,
    params: Params,
    resource_type: str,
    ignored: Ignored,
) -> Subset:
    """Return the part of a resource that is asked for. What is ignored is added to `ignored`."""
    subset_params = [pair for pair in params if pair[0] in {"_elements", "_summary"}]
    if not subset_params:
        return WHOLE
    parser = QueryParser(resource_type, context.profile)
    parser.ignored.handling = ignored.handling
    subset = parser.parse(subset_params).subset
    ignored.pairs += parser.ignored.pairs
    ignored.warned += parser.ignored.warned
    if subset.summary == "count":
        error = UnsupportedFeature(
            "_summary=count is for searches: a read returns one resource."
        )
        if not ignored.add(error, ("_summary", "count")):
            raise FhirError(str(error))
    return subset


def _existing(context: RequestContext) -> StoredResource:
    resource = context.record.stored(context.path.type, context.path.id)
    if resource is None:
        raise FhirError(
            f"There is no {context.path.type} of that id.", 404, "not-found"
        )
    count_resource(resource.text)
    return resource


def _versioned(
    context: RequestContext,
    resource: StoredResource,
    text: str,
    more_headers: Headers,
) -> FhirResponse:
    """Return a text with the tag and date of its version, or 304 if the client has it.

    A tag outweighs a date (RFC 9110, section 13.2.2).
    """
    reply_headers = {**version_headers(resource), **more_headers}
    tags = context.headers.get("if-none-match")
    if tags is not None:
        is_known = matches_entity_tag(resource, tags)
    else:
        since = _parse_http_date(context.headers.get("if-modified-since", ""))
        updated = resource.updated // dates.SECOND
        is_known = since is not None and updated <= since // dates.SECOND
    if is_known:
        return FhirResponse(304, "", reply_headers)
    return FhirResponse(200, text, reply_headers)


def version_headers(resource: StoredResource) -> dict[str, str]:
    """Return `ETag` and, if the year is one of HTTP's, `Last-Modified`."""
    headers = {"etag": entity_tag(resource)}
    try:
        updated = datetime.datetime.fromisoformat(
            dates.format_instant(resource.updated)
        )
        headers["last-modified"] = format_datetime(updated, usegmt=True)
    except (ValueError, OverflowError):
        pass
    return headers


def entity_tag(resource: StoredResource) -> str:
    """Return the weak entity tag of a version."""
    return f'W/"{resource.version}"'


def matches_entity_tag(resource: StoredResource, condition: str) -> bool:
    """Whether a list of entity tags, or `*`, has this version; a bare version id is understood."""
    for tag in _ENTITY_TAG.findall(condition):
        if tag == "*" or tag.removeprefix("W/").strip('"') == resource.version:
            return True
    return False


def _parse_http_date(text: str) -> int | None:
    """Return the UTC microseconds of an HTTP date; None if the text is none."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # The zone is "-0000": the clock is UTC all the same.
        moment = moment.replace(tzinfo=datetime.UTC)
    return dates.microseconds(moment)
