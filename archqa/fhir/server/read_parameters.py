"""`_elements` and `_summary` of a read. Source: hl7.org/fhir/R4/http.html#parameters."""

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.search.summaries import WHOLE, Subset
from archqa.fhir.search.unsupported import Ignored, UnsupportedFeature
from archqa.fhir.values.urls import Params


def requested_subset(
    params: Params, resource_type: str, profile: Profile, ignored: Ignored
) -> Subset:
    """Return the part of a resource that a read asks for.

    Raises `FhirError`. What the handling ignores is added to `ignored`.
    """
    subset_params = [pair for pair in params if pair[0] in {"_elements", "_summary"}]
    if not subset_params:
        return WHOLE
    parser = QueryParser(resource_type, profile)
    parser.ignored.handling = ignored.handling
    subset = parser.parse(subset_params).subset
    ignored.pairs += parser.ignored.pairs
    ignored.warned += parser.ignored.warned
    if subset.summary == "count":
        error = UnsupportedFeature("_summary=count is for searches: a read returns one resource.")
        if not ignored.add(error, ("_summary", "count")):
            raise FhirError(str(error))
    return subset
