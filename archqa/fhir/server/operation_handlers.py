"""Answer `$everything`, by GET and by POST.

Sources: hl7.org/fhir/R4/patient-operation-everything.html, encounter-operation-everything.html.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from archqa.fhir.profile import ARCHQA, GCP, Profile
from archqa.fhir.record import Page
from archqa.fhir.search.compartment import EverythingRequest
from archqa.fhir.search.outcome_entry import outcome_entries
from archqa.fhir.server.capability import largest_page
from archqa.fhir.server.handling import (
    EVERYTHING_PARAMETERS,
    supported_parameters,
    warning_header,
)
from archqa.fhir.server.negotiation import check_formats
from archqa.fhir.server.operation_input import operation_params
from archqa.fhir.server.response import FhirResponse
from archqa.fhir.server.searchset import decode_page_token, write_searchset
from archqa.fhir.values.urls import Params, build_search_url, with_count

if TYPE_CHECKING:
    from archqa.fhir.server.operations import OperationCall
    from archqa.fhir.server.service import FhirService


def answer_everything(service: "FhirService", call: "OperationCall") -> FhirResponse:
    """Answer `Patient/[id]/$everything` or `Encounter/[id]/$everything`. Raises `FhirError`."""
    profile = service.record.profile
    known = EVERYTHING_PARAMETERS[call.resource_type]
    subject = f"The $everything of {call.resource_type}"
    params, ignored = supported_parameters(_params(call), known, subject, profile, call.headers)
    request = EverythingRequest.from_params(decode_page_token(params))
    asked, largest = request.count, largest_page(profile)
    request = replace(request, count=min(asked, largest))
    page = service.record.everything_page(call.resource_id, request, call.resource_type)
    notices = [f"_count is at most {largest}."] if asked > largest else []
    page = replace(page, entries=(*page.entries, *outcome_entries(ignored.remarks, notices)))
    return _searchset(service, page, params, ignored.warned)


def _params(call: "OperationCall") -> Params:
    params = operation_params(call.params, call.body, call.headers)
    check_formats(params)
    return params


def _searchset(
    service: "FhirService", page: Page, params: Params, warned: Iterable[str]
) -> FhirResponse:
    """Return the page with links that repeat the parameters in the URL."""
    path = page.query.partition("?")[0]
    self_url = f"{service.base}/{build_search_url(path, with_count(params, page.count))}"
    links = link_profile(service.record.profile)
    text = write_searchset(page, service.base, links, self_url)
    return FhirResponse(200, text, warning_header(warned))


def link_profile(profile: Profile) -> Profile:
    """Return a profile whose links an operation can use: hapi has them for searches only."""
    return GCP if profile is GCP else ARCHQA
