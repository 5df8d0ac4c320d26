"""The parameters of `[base]/metadata`. Source: hl7.org/fhir/R4/http.html#capabilities."""

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.search.summaries import Subset
from archqa.fhir.search.unsupported import Ignored, UnsupportedFeature
from archqa.fhir.server.read_parameters import requested_subset
from archqa.fhir.values.urls import Params

_TYPE = "CapabilityStatement"


def parse_subset(params: Params, profile: Profile, ignored: Ignored) -> Subset:
    """Return what the parameters ask for; of the modes there is `full` alone.

    Raises `FhirError`. What the handling ignores is added to `ignored`.
    """
    for name, value in params:
        if name == "mode" and value not in {"", "full"}:
            problem = "Of the modes of metadata there is full here, and no other."
            if not ignored.add(UnsupportedFeature(problem), (name, value)):
                raise FhirError(problem)
    return requested_subset(params, _TYPE, profile, ignored)
