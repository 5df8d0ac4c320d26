"""References and request paths: where `Type/id` is parsed.

Sources: hl7.org/fhir/R4/references.html#literal, http.html#general.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from archqa.fhir.record import member_of
from archqa.fhir.values.names import names_in
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES

_LITERAL = re.compile(
    r"(?:.*/)?([A-Za-z]{1,64})/([A-Za-z0-9._-]{1,128})(?:/_history/[A-Za-z0-9._-]{1,64})?"
)
_CONDITIONAL = re.compile(r"(?:https?://.*/)?([A-Za-z]{1,64})(\?.+)", re.DOTALL)
PATIENT_ELEMENTS = names_in("patient elements")
"""Elements by which resources of R4 refer to the patient whom they are about."""

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


def parse_reference_element(element: object) -> ReferenceTarget | None:
    """Return the target of a Reference; None for an element that is none, or points nowhere.

    References into the resource itself (`#…`) and mere identifiers point nowhere.
    """
    text = member_of(element, "reference")
    return parse_reference(text) if isinstance(text, str) else None


def parse_conditional_reference(reference: str) -> ReferenceTarget | None:
    """Return the target of `Type?identifier=…`, with the condition as its id; None of others.

    Source: hl7.org/fhir/R4/http.html#trules.
    """
    match = _CONDITIONAL.fullmatch(reference) if "?" in reference else None
    if match is None or match[1] not in R4_RESOURCE_TYPES:
        return None
    return ReferenceTarget(match[1], match[2])


class RequestPath(NamedTuple):
    """A path below a server's base, by its parts, which are empty where it has none.

    `tail` follows the id (`Observation`, `_history/1`); `action` is a last part `_search` or
    `$everything`.
    """

    type: str = ""
    id: str = ""
    tail: str = ""
    action: str = ""

    @property
    def version(self) -> str:
        """The version that `Type/id/_history/version` names, else empty."""
        folder, _, version = self.tail.partition("/")
        return version if folder == "_history" and "/" not in version else ""

    @property
    def is_operation(self) -> bool:
        """Whether the path calls an operation, be it one that the server has or not."""
        return self.action.startswith("$")

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


def parse_path(path: str) -> RequestPath:
    """Return the parts of a relative path without a query: `Patient/1/Observation/_search`."""
    place, _, action = path.rpartition("/")
    if action != "_search" and not action.startswith("$"):
        place, action = path, ""
    resource_type, _, rest = place.partition("/")
    resource_id, _, tail = rest.partition("/")
    return RequestPath(
        resource_type,
        resource_id,
        tail,
        action,
    )
