"""Conditional create: a resource is created only if no other one matches a search.

Source: hl7.org/fhir/R4/http.html#ccreate.
"""

from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import HAPI
from archqa.fhir.search.result_parameters import RESULT_PARAMETERS
from archqa.fhir.search.versions import ResourceVersion
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params, parse_query_string

_NAME = "If-None-Exist"


def find_existing(record: LocalRecord, resource_type: str, criteria: str) -> ResourceVersion | None:
    """Return the one resource that matches the criteria of a conditional create, None for none.

    The search is FHIR's alone, without a profile's leniency. Raises `FhirError`: 400 for mistakes
    in the criteria, 412 if several resources match.
    """
    params = [*_parse(resource_type, criteria), ("_count", "2"), ("_total", "none")]
    page = record.search(resource_type, params, lenient=False, profile=HAPI)
    matches = [entry for entry in page.entries if entry.mode == "match"]
    if len(matches) > 1:
        message = f"{_NAME}: several resources match. Nothing was created."
        raise FhirError(message, 412, "multiple-matches")
    return record.version(resource_type, matches[0].id) if matches else None


def _parse(resource_type: str, criteria: str) -> Params:
    """Return the parameters of `name=value&…`, perhaps after `Type?`. Raises `FhirError`."""
    head, question_mark, query = criteria.strip().partition("?")
    if not question_mark:
        head, query = "", criteria.strip()
    if head not in {"", resource_type}:
        raise FhirError(f"{_NAME} must be a search of the type that is created.")
    params = parse_query_string(query)
    if not params:
        raise FhirError(f"{_NAME} must be a search such as identifier=system|value.")
    mistakes = []
    for name, value in params:
        if name in RESULT_PARAMETERS:
            mistakes.append(f"{_NAME}: {quotable(name)} does not say which resource matches.")
        elif not value.strip():
            mistakes.append(f"{_NAME}: {quotable(name)} has no value.")
    if mistakes:
        raise FhirError(mistakes)
    return params
