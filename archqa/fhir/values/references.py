"""Parse references of any form. Source: hl7.org/fhir/R4/references.html#literal."""

import re
from functools import lru_cache
from typing import NamedTuple

from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES

_LITERAL = re.compile(
    r"(?:.*/)?([A-Za-z]{1,64})/([A-Za-z0-9._-]{1,128})(?:/_history/[A-Za-z0-9._-]{1,64})?"
)
_BARE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class ReferenceTarget(NamedTuple):
    """The type and id a reference names; the type is empty for `urn:uuid:…` and a bare id."""

    type: str
    id: str


@lru_cache(maxsize=65536)
def parse_reference(reference: str) -> ReferenceTarget | None:
    """Return the target of `Type/id`, a URL, `…/_history/3`, `urn:uuid:…` or a bare id.

    None for anything else.
    """
    if reference.startswith(("urn:uuid:", "urn:oid:")):
        return ReferenceTarget("", reference.split(":", 2)[2])
    literal = _LITERAL.fullmatch(reference)
    if literal and literal[1] in R4_RESOURCE_TYPES:
        return ReferenceTarget(literal[1], literal[2])
    if _BARE_ID.fullmatch(reference):
        return ReferenceTarget("", reference)
    return None
