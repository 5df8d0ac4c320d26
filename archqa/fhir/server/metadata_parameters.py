"""The parameters of `[base]/metadata`. Source: hl7.org/fhir/R4/http.html#capabilities."""

from typing import NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.search.query_parser import QueryParser
from archqa.fhir.search.summaries import subset_resource
from archqa.fhir.search.unsupported import Ignored, UnsupportedFeature
from archqa.fhir.values.urls import Params

_TYPE = "CapabilityStatement"


class Subset(NamedTuple):
    """Which part of the statement is asked for."""

    elements: tuple[str, ...]
    summary: str

    def applied_to(self, text: str) -> str:
        """Return that part of the statement."""
        if not self.elements and self.summary == "false":
            return text
        return subset_resource(text, _TYPE, self.elements, self.summary)


def parse_subset(params: Params, profile: Profile, ignored: Ignored) -> Subset:
    """Return what the parameters ask for; of the modes there is `full` alone.

    Raises `FhirError`. What the handling ignores is added to `ignored`.
    """
    shaping = []
    mistakes = []
    for name, value in params:
        error = _problem(name, value)
        if error is None and name != "mode":
            shaping.append((name, value))
        elif error is not None and not ignored.add(error, (name, value)):
            mistakes.append(str(error))
    if mistakes:
        raise FhirError(mistakes)
    parser = QueryParser(_TYPE, profile)
    parser.ignored.handling = ignored.handling
    query = parser.parse(shaping)
    ignored.pairs += parser.ignored.pairs
    ignored.warned += parser.ignored.warned
    return Subset(query.elements, query.summary)


def _problem(name: str, value: str) -> UnsupportedFeature | None:
    if name == "mode" and value not in {"", "full"}:
        return UnsupportedFeature("Of the modes of metadata there is full here, and no other.")
    if name == "_summary" and value == "count":
        return UnsupportedFeature("_summary=count is for searches.")
    return None
