"""What a reference points to, whatever its form. Source: hl7.org/fhir/R4/references.html#literal."""

import re
from functools import lru_cache
from typing import NamedTuple

from archqa.fhir.resource_types import R4

_LITERAL = re.compile(r"(?:.*/)?([A-Za-z]{1,64})/([A-Za-z0-9._-]{1,128})(?:/_history/[A-Za-z0-9._-]{1,64})?")
_BARE = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Target(NamedTuple):
    """The type and id a reference names; the type is empty where only an id is known (`urn:uuid:…`, a bare id)."""

    type: str
    id: str


@lru_cache(maxsize=65536)
def target(reference: str) -> Target | None:
    """What `Type/id`, `http://…/Type/id`, `…/_history/3`, `urn:uuid:…` or a bare id names; None for anything else."""
    if reference.startswith(("urn:uuid:", "urn:oid:")):
        return Target("", reference.split(":", 2)[2])
    found = _LITERAL.fullmatch(reference)
    if found and found[1] in R4:
        return Target(found[1], found[2])
    return Target("", reference) if _BARE.fullmatch(reference) else None
