"""`_elements` and `_summary` of a read. Source: hl7.org/fhir/R4/http.html#parameters."""

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.search.summaries import WHOLE, Subset
from archqa.fhir.values.urls import Params

SUBSET_PARAMETERS = frozenset({"_elements", "_summary"})


def requested_subset(
    params: Params, resource_type: str, profile: Profile, lenient: bool | None
) -> Subset:
    """Return the part of a resource that a read asks for. Raises `FhirError`."""
    subset_params = [(name, value) for name, value in params if name in SUBSET_PARAMETERS]
    if not subset_params:
        return WHOLE
    subset = QueryParser(resource_type, profile, lenient).parse(subset_params).subset
    if subset.summary == "count":
        raise FhirError("_summary=count is for searches: a read returns one resource.")
    return subset
