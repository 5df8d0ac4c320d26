"""A resource as it is stored, and the entry for it."""

from typing import NamedTuple

from archqa.fhir.record import Entry
from archqa.fhir.request_budget import check_budget
from archqa.fhir.search.summaries import Subset, part_of_resource


class StoredResource(NamedTuple):
    """A resource's type, id and JSON text."""

    type: str
    id: str
    text: str


def entry_of(resource: StoredResource, subset: Subset, mode: str = "match") -> Entry:
    """Return the entry for a resource, or for the part of it that is asked for."""
    check_budget()
    text = part_of_resource(resource.text, resource.type, subset)
    return Entry(resource.type, resource.id, text, mode)
