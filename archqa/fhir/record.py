"""The interface of a record, be it a file or a server: every agent works on both.

`Store` is a file, `FhirClient` a server, `Overlay` a file with writes on top. Errors are
OperationOutcomes, short enough for a model to act on (hl7.org/fhir/R4/operationoutcome.html).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

from archqa.core.recorded_numbers import parse_json
from archqa.core.value import FrozenModel
from archqa.errors import CallerError

Resource = dict[str, Any]
"""A FHIR resource as JSON values."""

SearchParams = Mapping[str, "str | int | Iterable[str]"] | Iterable[tuple[str, str]]
"""Search parameters: a mapping (a list of values means AND), or pairs."""


NOT_CONVERTED = "urn:archqa:not-converted"
"""The system of the tag of a resource of another FHIR version that was not converted as a whole.

The code of the tag is the version.
"""

_MAX_PAGES = 10_000
"""Pages of one search: it must end even if a server's links form a circle."""

_MAX_DIAGNOSTIC_LENGTH = 600
"""Characters of one diagnostic: it goes to a model."""


class FhirError(CallerError):
    """An invalid request.

    `status` is the HTTP status, `code` the issue type of the OperationOutcome.

    `diagnostics` lists every mistake of the request; none of them contains record text.
    """

    def __init__(
        self,
        diagnostics: str | Iterable[str],
        status: int = 400,
        code: str = "invalid",
    ) -> None:
        texts = [diagnostics] if isinstance(diagnostics, str) else diagnostics
        shortened = []
        for text in texts:
            if len(text) > _MAX_DIAGNOSTIC_LENGTH:
                text = f"{text[: _MAX_DIAGNOSTIC_LENGTH - 1]}…"
            shortened.append(text)
        self.diagnostics = tuple(shortened)
        self.status = status
        self.code = code
        super().__init__("\n".join(self.diagnostics))

    def outcome(self) -> dict[str, Any]:
        """Return the OperationOutcome resource."""
        return operation_outcome(self.diagnostics, "error", self.code)


def operation_outcome(
    diagnostics: Iterable[str], severity: str, code: str
) -> dict[str, Any]:
    """Return an OperationOutcome with one issue for each diagnostic."""
    issues = [
        {
            "severity": severity,
            "code": code,
            "diagnostics": text,
        }
        for text in diagnostics
    ]
    return {"resourceType": "OperationOutcome", "issue": issues}


def member_of(parent: Any, member: str) -> Any:
    """Return a member of a JSON object; None where there is none, or the parent is no object."""
    return parent.get(member) if isinstance(parent, dict) else None


def objects_of(parent: Any, member: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a member that is a list; none where parent or member is not one."""
    values = parent.get(member) if isinstance(parent, Mapping) else None
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


@dataclass(frozen=True)
class Entry:
    """One entry of a searchset.

    `mode` is match, include or outcome; `text` is the resource's JSON exactly as loaded.
    """

    type: str
    id: str
    text: str
    mode: str = "match"

    @cached_property
    def resource(self) -> Resource:
        """The resource as JSON values. The object is shared: do not change it."""
        resource = parse_json(self.text)
        assert isinstance(resource, dict)
        return resource


@dataclass(frozen=True)
class Page:
    """One page of a search: matches, included resources and notices.

    `total` counts the matches on all pages (None if the profile does not tell it). `next` is the
    search for the following page, None on the last. `query` is the search that gave this page.
    `later` are matches that are read, a few at a time, while the page is written: of a page that is
    too large for memory.
    """

    query: str
    entries: tuple[Entry, ...] = ()
    total: int | None = None
    next: str | None = None
    offset: int = 0
    count: int = 0
    ignored: tuple[tuple[str, str], ...] = ()
    """Parameters that had no effect; the links leave them out."""
    warned: tuple[str, ...] = ()
    """Names of parameters that had no effect, or not the whole one, where no entry says so (gcp)."""
    server_warnings: tuple[str, ...] = ()
    """What a server says of the search beside the Bundle, in `Warning` headers (RFC 7234, 5.5)."""
    later: Iterator[Sequence[Entry]] | None = field(default=None, compare=False)

    @property
    def resources(self) -> list[Resource]:
        """The matches as JSON values, in order."""
        return [entry.resource for entry in self.entries if entry.mode == "match"]

    @property
    def included(self) -> list[Resource]:
        """The resources that `_include` and `_revinclude` added."""
        return [entry.resource for entry in self.entries if entry.mode == "include"]

    @property
    def notices(self) -> list[str]:
        """Remarks on the search, such as a code matched without regard to case."""
        diagnostics = [f"The parameter {name} was ignored." for name in self.warned]
        diagnostics += [
            f"The server says: {warning}" for warning in self.server_warnings
        ]
        for entry in self.entries:
            if entry.mode == "outcome":
                issues = objects_of(entry.resource, "issue")
                diagnostics += [str(issue.get("diagnostics", "")) for issue in issues]
        return diagnostics


class CodeCount(FrozenModel):
    """A code of a record, and the number of resources that have it."""

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
        """Return one resource, or None if there is none of that type and id."""
        ...

    def search(self, query: str, params: SearchParams | None = None) -> Page:
        """Return one page of a search such as `Observation?patient=…&code=…`.

        Parameters may also be passed as `params`. Raises `FhirError`.
        """
        ...

    def search_all(
        self, query: str, params: SearchParams | None = None
    ) -> Iterator[Resource]:
        """Yield the matches of all pages, each resource once. Raises `FhirError`."""
        ...

    def everything(self, patient: str) -> Iterator[Resource]:
        """Yield the patient, all resources about them, and what those refer to."""
        ...

    def counts(self, patient: str | None = None) -> dict[str, int]:
        """Return the number of resources of each type, in the whole record or of one patient."""
        ...

    def codes(self, resource_type: str, patient: str | None = None) -> list[CodeCount]:
        """Return the codes of a type's resources, most frequent first."""
        ...

    def close(self) -> None:
        """Close the file or the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def all_pages(record: Record, page: Page) -> Iterator[Page]:
    """Yield a page of a search and those after it.

    Raises `FhirError` if the server's pages never end.
    """
    urls: set[str] = set()
    while True:
        yield page
        if page.next is None:
            return
        if page.next in urls or len(urls) >= _MAX_PAGES:
            raise FhirError("The server's pages never end.", 502, "throttled")
        urls.add(page.next)
        page = record.search(page.next)


@runtime_checkable
class PartialRecord(Record, Protocol):
    """A record on a server that may refuse some types: these have no resources here."""

    refused: dict[str, str]
    """The reason for each type that was refused so far."""

    def check_any_type_read(self) -> None:
        """Raise the first refusal if the server refused every type that was searched."""
        ...


@runtime_checkable
class WritableRecord(Record, Protocol):
    """A record to which resources can be added."""

    def create(self, resource: Resource) -> Resource:
        """Store a resource under a new id and return what was stored. Raises `FhirError`."""
        ...
