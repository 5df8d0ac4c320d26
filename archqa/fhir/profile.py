"""Three servers in one: how Google's and HAPI's differ, and what archqa does by default.

`gcp` is the server of FHIR-AgentBench (Google Cloud Healthcare API), `hapi` that of MedAgentBench (HAPI FHIR JPA);
both are kept, mistakes included, so that their benchmarks mean the same here.
"""

from dataclasses import dataclass
from enum import StrEnum

from archqa.errors import CallerError


class UnknownParameterPolicy(StrEnum):
    """What becomes of a search parameter that the type does not have."""

    IGNORE = "ignore"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Profile:
    """The ways of one server."""

    name: str
    unknown_parameters: UnknownParameterPolicy
    default_count: int
    max_count: int | None
    always_total: bool
    helpful: bool
    """Reads `id` as `_id`, finds a patient's Locations, tries codes without case, matches words apart, says so."""
    wall_clock: bool
    """A date without a zone is compared with the wall clock of the record, not with UTC."""
    content_type: str


_FHIR_JSON = "application/fhir+json"

ARCHQA = Profile("archqa", UnknownParameterPolicy.REFUSE, 100, 5000, True, True, True, _FHIR_JSON)
GCP = Profile(
    "gcp",
    UnknownParameterPolicy.IGNORE,
    100,
    1000,
    True,
    False,
    False,
    f"{_FHIR_JSON};charset=utf-8",
)
HAPI = Profile("hapi", UnknownParameterPolicy.REFUSE, 20, None, False, False, False, _FHIR_JSON)

PROFILES = {profile.name: profile for profile in (ARCHQA, GCP, HAPI)}


def get_profile(name: str | Profile) -> Profile:
    """The profile of that name. Raises `CallerError` if there is none."""
    if isinstance(name, Profile):
        return name
    if name not in PROFILES:
        raise CallerError(f"There is no profile of that name.\nThere are: {', '.join(PROFILES)}.")
    return PROFILES[name]
