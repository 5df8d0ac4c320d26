"""What a reference points to, whatever its form. Source: hl7.org/fhir/R4/references.html#literal."""

import re
from functools import lru_cache
from typing import NamedTuple

from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES

_LITERAL = re.compile(
    r"(?:.*/)?([A-Za-z]{1,64})/([A-Za-z0-9._-]{1,128})(?:/_history/[A-Za-z0-9._-]{1,64})?"
)
_BARE = re.compile(r"[A-Za-z0-9._-]{1,128}")


class ReferenceTarget(NamedTuple):
    """The type and id a reference names; the type is empty where only an id is known (`urn:uuid:…`, a bare id)."""

    type: str
    id: str


@lru_cache(maxsize=65536)
def parse_reference(reference: str) -> ReferenceTarget | None:
    """What `Type/id`, `http://…/Type/id`, `…/_history/3`, `urn:uuid:…` or a bare id names; None for anything else."""
    if reference.startswith(("urn:uuid:", "urn:oid:")):
        return ReferenceTarget("", reference.split(":", 2)[2])
    found = _LITERAL.fullmatch(reference)
    if found and found[1] in R4_RESOURCE_TYPES:
        return ReferenceTarget(found[1], found[2])
    return ReferenceTarget("", reference) if _BARE.fullmatch(reference) else None
