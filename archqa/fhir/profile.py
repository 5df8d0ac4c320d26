"""Profiles: how Google's and HAPI's FHIR servers differ, and what archqa does by default.

`gcp` is the server of FHIR-AgentBench (Google Cloud Healthcare API), `hapi` that of MedAgentBench
(HAPI FHIR JPA). Both are reproduced with their mistakes, so that their benchmarks mean the same.
"""

from dataclasses import dataclass
from enum import StrEnum

from archqa.core.near_misses import unknown_name


class UnknownParameterPolicy(StrEnum):
    """What to do with a search parameter that the type does not have."""

    IGNORE = "ignore"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Profile:
    """The behaviour of one server.

    `max_count` is the largest page, None without a limit; `always_total` tells the total on every
    page.
    """

    name: str
    unknown_parameters: UnknownParameterPolicy
    default_count: int
    max_count: int | None
    always_total: bool
    extensions_enabled: bool
    """Read `id` as `_id`, find a patient's Locations, fall back to codes without regard to case,
    match the words of a name separately, and report all of that in notices."""
    wall_clock: bool
    """Compare a date without a zone with the wall clock of the record instead of UTC."""
    content_type: str


_FHIR_JSON = "application/fhir+json"

ARCHQA = Profile(
    name="archqa",
    unknown_parameters=UnknownParameterPolicy.REFUSE,
    default_count=100,
    max_count=5000,
    always_total=True,
    extensions_enabled=True,
    wall_clock=True,
    content_type=_FHIR_JSON,
)
GCP = Profile(
    name="gcp",
    unknown_parameters=UnknownParameterPolicy.IGNORE,
    default_count=100,
    max_count=1000,
    always_total=True,
    extensions_enabled=False,
    wall_clock=False,
    content_type=f"{_FHIR_JSON};charset=utf-8",
)
HAPI = Profile(
    name="hapi",
    unknown_parameters=UnknownParameterPolicy.REFUSE,
    default_count=20,
    max_count=None,
    always_total=False,
    extensions_enabled=False,
    wall_clock=False,
    content_type=_FHIR_JSON,
)

PROFILES = {profile.name: profile for profile in (ARCHQA, GCP, HAPI)}


def get_profile(profile: str | Profile) -> Profile:
    """Return the profile of that name. Raises `CallerError` if there is none."""
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise unknown_name("profile", profile, PROFILES)
    return PROFILES[profile]
