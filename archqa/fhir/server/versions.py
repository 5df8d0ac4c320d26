"""Versions over HTTP: ETag and Last-Modified, conditional reads, vread.

Source: hl7.org/fhir/R4/http.html#versioning, #cread, #vread.
"""

import re
from typing import NamedTuple

from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.search.versions import ResourceVersion
from archqa.fhir.server.http_dates import format_http_date, parse_http_date
from archqa.fhir.server.response import Headers
from archqa.fhir.values import dates
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params

_HISTORY = "_history"
_ENTITY_TAG = re.compile(r'\*|(?:W/)?"[^"]*"|[^\s,"]+')
_FORMATS = {"_format", "_pretty"}


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
    version = None
    if is_read or is_vread(path):
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


def is_vread(path: str) -> bool:
    """Whether a path asks for a version: `Type/id/_history/vid`."""
    parts = path.split("/")
    return len(parts) == 4 and parts[2] == _HISTORY


def read_version(record: LocalRecord, path: str, params: Params) -> str:
    """Return the version that a path names. Raises `FhirError` (404) for any but the last one."""
    resource_type, resource_id, _, wanted = path.split("/")
    mistakes = []
    for name, _ in params:
        if name not in _FORMATS:
            mistakes.append(f"A read of a version has no parameter {quotable(name)}.")
    if mistakes:
        raise FhirError(mistakes)
    version = record.version(resource_type, resource_id)
    if version is None:
        raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
    if version.version != wanted:
        message = f"The record has no such version of this {resource_type}, but its last one."
        raise FhirError(message, 404, "not-found")
    text = record.text(resource_type, resource_id)
    assert text is not None
    return text
