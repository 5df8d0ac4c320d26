"""The names of FHIR resources on the pages: what a resource is first, then its id."""

from typing import NamedTuple

_MAX_SHORT_ID_LENGTH = 12


class ResourceName(NamedTuple):
    """A resource as on a chip; an id that is `long` is cut by the style sheet, not in the text.

    The page so has the whole id to be found, copied and read aloud.
    """

    kind: str
    id: str
    long: bool


def resource_name(reference: str) -> ResourceName:
    """Return the parts of `Type/id`; the type is empty if there is none."""
    kind, _, resource_id = reference.rpartition("/")
    return ResourceName(kind, resource_id, len(resource_id) > _MAX_SHORT_ID_LENGTH)
