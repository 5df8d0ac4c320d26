"""Which methods a URL answers, and the reply (405) to others.

A new interaction is a row of `_METHODS`. Source: hl7.org/fhir/R4/http.html#summary.
"""

import json
import re

from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.server.operations import find_operation, is_operation
from archqa.fhir.server.response import FhirResponse
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.urls import parse_search_url

_READ = ("GET", "HEAD")

_METHODS = (
    (r"", (*_READ, "POST")),
    (r"metadata", _READ),
    (r"(?:.*/)?_search", ("POST",)),
    (r"(?P<type>\w+)/[^/]+/_history/[^/]+", _READ),
    (r"(?P<type>\w+)", (*_READ, "POST")),
    (r"(?P<type>\w+)/[^/]+", _READ),
    (r"\w+/[^/]+/(?P<type>\w+)", _READ),
)
"""Patterns of paths below the base, with their methods; the first that matches counts.

`type` must be a type of resource.
"""

_WHATEVER = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
"""For URLs that are no endpoint: they are answered with 404 whatever the method."""


def allowed_methods(path: str) -> tuple[str, ...]:
    """Return the methods that a path below the base answers.

    Raises `FhirError` (404) for an operation that the server does not have.
    """
    if is_operation(path):
        operation, _ = find_operation(path)
        return operation.methods
    for pattern, methods in _METHODS:
        match = re.fullmatch(pattern, path)
        if match and match.groupdict().get("type", "Patient") in R4_RESOURCE_TYPES:
            return methods
    return _WHATEVER


def method_not_allowed(methods: tuple[str, ...]) -> FhirResponse:
    """Return the reply that names the methods which the URL answers."""
    allowed = ", ".join(methods)
    outcome = operation_outcome([f"This URL answers {allowed}."], "error", "not-supported")
    return FhirResponse(405, json.dumps(outcome), {"allow": allowed})


def answers(method: str, url: str) -> bool:
    """Whether a URL below the base answers a method; others are refused whatever they send."""
    try:
        path, _ = parse_search_url(url)
        return method in allowed_methods(path)
    except FhirError:
        return False
