"""What a record can do, be it a file beside us or a server far away: every agent works on both.

`Store` is the file, `FhirClient` the server, `Overlay` a file with writes above it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

from archqa.core.value import FrozenModel

Resource = dict[str, Any]
"""A FHIR resource as JSON values."""

SearchParams = Mapping[str, "str | int | Iterable[str]"] | Iterable[tuple[str, str]]
"""Search parameters: a mapping (a list of values means AND), or pairs."""


@dataclass(frozen=True)
class Entry:
    """One entry of a searchset. `mode` is match, include or outcome; `text` the resource's JSON exactly as loaded."""

    type: str
    id: str
    text: str
    mode: str = "match"

    @cached_property
    def resource(self) -> Resource:
        """The resource as JSON values. Shared by everybody who asks: do not change it."""
        found = json.loads(self.text)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True)
class Page:
    """One page of a search: matches, what was included with them, and notices.

    `total` counts the matches on all pages (None if the profile does not tell); `next` is the search that gives the
    following page, None on the last; `query` is the search that gave this one.
    """

    query: str
    entries: tuple[Entry, ...] = ()
    total: int | None = None
    next: str | None = None
    offset: int = 0
    count: int = 0

    @property
    def resources(self) -> list[Resource]:
        """The matches as JSON values, in order."""
        return [entry.resource for entry in self.entries if entry.mode == "match"]

    @property
    def included(self) -> list[Resource]:
        """What `_include` and `_revinclude` brought."""
        return [entry.resource for entry in self.entries if entry.mode == "include"]

    @property
    def notices(self) -> list[str]:
        """What the record had to say about the search, such as a code matched without regard to its case."""
        found = [entry.resource for entry in self.entries if entry.mode == "outcome"]
        return [issue.get("diagnostics", "") for each in found for issue in each.get("issue", [])]


class CodeCount(FrozenModel):
    """A code that occurs in a record, and in how many resources."""

    type: str
    element: str
    system: str
    code: str
    display: str
    count: int


@runtime_checkable
class Record(Protocol):
    """A record that can be read. Safe to use from several threads."""

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """One resource, or None if there is none of that type and id."""
        ...

    def search(self, query: str, params: SearchParams | None = None) -> Page:
        """One page of `Observation?patient=…&code=…`, or of a type and its parameters. Raises `FhirError`."""
        ...

    def search_all(self, query: str, params: SearchParams | None = None) -> Iterator[Resource]:
        """The matches of all pages, each resource once. Raises `FhirError`."""
        ...

    def everything(self, patient: str) -> Iterator[Resource]:
        """The patient, all that is theirs, and the Locations, Medications and so on which that refers to."""
        ...

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """How many resources of each type there are, in all or of one patient."""
        ...

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """The codes that occur in resources of the type, in all or of one patient, most frequent first."""
        ...

    def close(self) -> None:
        """Let go of the file or the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class WritableRecord(Record, Protocol):
    """A record to which resources can be added."""

    def create(self, resource: Resource) -> Resource:
        """Store a resource under a new id; what was stored. Raises `FhirError`."""
        ...
