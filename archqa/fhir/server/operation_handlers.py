"""Answer `$everything` and `$lastn`, by GET and by POST.

Sources: hl7.org/fhir/R4/patient-operation-everything.html, encounter-operation-everything.html,
observation-operation-lastn.html.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import ARCHQA, GCP
from archqa.fhir.record import Page
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.search.last_observations import parse_last_request
from archqa.fhir.server.capability import largest_page
from archqa.fhir.server.handling import preferred_handling
from archqa.fhir.server.operation_input import operation_params
from archqa.fhir.server.response import FhirResponse
from archqa.fhir.server.searchset import decode_page_token, write_searchset
from archqa.fhir.values.urls import Params, build_search_url, with_count

if TYPE_CHECKING:
    from archqa.fhir.server.operations import OperationCall
    from archqa.fhir.server.service import FhirService

_CARE_DATES = ("start", "end")
"""Parameters that R4 has for the `$everything` of a patient alone."""


def answer_everything(service: "FhirService", call: "OperationCall") -> FhirResponse:
    """Answer `Patient/[id]/$everything` or `Encounter/[id]/$everything`. Raises `FhirError`."""
    params = operation_params(call.params, call.body, call.headers)
    if call.resource_type != "Patient":
        _refuse_care_dates(params)
    request = EverythingRequest.from_params(decode_page_token(params))
    request = replace(request, count=min(request.count, largest_page(service.record.profile)))
    page = service.record.everything_page(call.resource_id, request, call.resource_type)
    return _searchset(service, page, params)


def _refuse_care_dates(params: Params) -> None:
    names = [name for name in _CARE_DATES if name in dict(params)]
    if names:
        problem = f"The $everything of an encounter has no parameter {' or '.join(names)}"
        raise FhirError(f"{problem}; that of a patient has.", code="not-supported")


def answer_last(service: "FhirService", call: "OperationCall") -> FhirResponse:
    """Answer `Observation/$lastn`. Raises `FhirError` with every mistake of the request."""
    params = operation_params(call.params, call.body, call.headers)
    lenient = preferred_handling(call.headers)
    request = parse_last_request(decode_page_token(params), service.record.profile, lenient)
    return _searchset(service, service.record.last_observations(request), params)


def _searchset(service: "FhirService", page: Page, params: Params) -> FhirResponse:
    """Return the page with links that repeat the parameters in the URL.

    hapi's links are for searches only.
    """
    path = page.query.partition("?")[0]
    self_url = f"{service.base}/{build_search_url(path, with_count(params, page.count))}"
    profile = service.record.profile
    link_profile = GCP if profile is GCP else ARCHQA
    return FhirResponse(200, write_searchset(page, service.base, link_profile, self_url))
