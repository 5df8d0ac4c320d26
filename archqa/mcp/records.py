"""The record that is served: found, searched and read within the limits and the restriction."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from archqa.asking.candidates import PatientMatch, SeveralPatients
from archqa.asking.patient import find_patient
from archqa.errors import CallerError
from archqa.fhir import Overlay, Page, Record, Resource
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.values.urls import Params, parse_search_url
from archqa.mcp.limits import CallLimits, json_size
from archqa.mcp.one_patient import (
    ONE_PATIENT,
    is_in_record_of,
    is_of_patient,
    within_patient,
)
from archqa.mcp.values import FoundResource, FoundResources
from archqa.safety.server_urls import is_server_url

_NO_RESOURCE = "There is no such resource in the record, or it is not of the patient served."


class ServedRecord:
    """A record, and the one patient whom it is restricted to, if any.

    `location` is its path or URL, `stored` what is there; `record` has what clients wrote on top.
    """

    def __init__(
        self,
        location: str,
        stored: Record,
        limits: CallLimits,
        patient: PatientMatch | None = None,
        written: Overlay | None = None,
    ) -> None:
        self.location = location
        self.stored = stored
        self.record: Record = written or stored
        self.limits = limits
        self.only_patient = patient

    @property
    def is_written(self) -> bool:
        """Whether a client has added resources."""
        return isinstance(self.record, Overlay) and bool(self.record.added())

    def find_patient(self, name: str | None) -> PatientMatch:
        """Return the patient of an id, identifier or name; the only one where it is restricted.

        Raises `CallerError` for another patient, for none and for several, whom it names.
        """
        if self.only_patient is not None:
            asked = (name or "").strip().removeprefix("Patient/")
            if asked not in {"", self.only_patient.id}:
                raise CallerError(ONE_PATIENT)
            return self.only_patient
        if not (name or "").strip():
            raise CallerError("Name the patient: a FHIR id, an identifier (MRN) or a name.")
        try:
            return find_patient(self.record, name or "")
        except SeveralPatients as error:
            raise CallerError(f"{error}\n{error.details}") from None

    def search(self, query: str) -> FoundResources:
        """Return one page of a search, as much of it as a reply may hold. Raises `FhirError`."""
        page = self._page(query)
        shown, hidden = self._shown(page)
        kept = list(self._fitting(shown))
        remarks = [*page.notices, *_remarks(len(shown) - len(kept), hidden)]
        matches = [resource for mode, resource in kept if mode == "match"]
        is_whole = len(kept) == len(shown)
        return FoundResources(
            query=page.query,
            total=None if hidden else self._total(page),
            ids=tuple(map(reference_of, matches)),
            resources=tuple(matches),
            included=tuple(resource for mode, resource in kept if mode == "include"),
            next=self._next(page) if is_whole else None,
            remarks=tuple(remarks),
        )

    def read(self, reference: str) -> FoundResource:
        """Return the resource of `Type/id`. Raises `CallerError` if there is none."""
        resource_type, _, resource_id = reference.strip().partition("/")
        if not resource_id or "/" in resource_id:
            raise CallerError("A resource is named Type/id, for example Observation/123.")
        resource = self.record.get(resource_type, resource_id)
        if resource is None or not self._may_read(resource):
            raise CallerError(_NO_RESOURCE)
        return FoundResource(id=f"{resource_type}/{resource_id}", resource=resource)

    def _may_read(self, resource: Resource) -> bool:
        if self.only_patient is None:
            return True
        return is_in_record_of(self.record, resource, self.only_patient.id)

    def _page(self, query: str) -> Page:
        if is_server_url(query):
            return self._page_of_server(query)
        path, params = parse_search_url(query)
        if self.only_patient is not None:
            path, params = within_patient(path, params, self.only_patient.id)
        return self.record.search(path, _limited(params, self.limits.rows))

    def _page_of_server(self, url: str) -> Page:
        """Return a further page: an address that the server itself made."""
        if self.only_patient is not None or not is_server_url(self.location):
            raise CallerError("A search is written Type?name=value, without a server's address.")
        return self.record.search(url)

    def _shown(self, page: Page) -> tuple[list[tuple[str, Resource]], int]:
        """Return mode and resource of the entries that may be shown, and how many may not."""
        matches = [entry for entry in page.entries if entry.mode != "outcome"]
        resources = [(entry.mode, entry.resource) for entry in matches]
        shown = [pair for pair in resources if self._may_show(*pair)]
        return shown, len(resources) - len(shown)

    def _may_show(self, mode: str, resource: Resource) -> bool:
        """Whether an entry may be shown. A store's own matches are of the patient's compartment."""
        if self.only_patient is None:
            return True
        patient = self.only_patient.id
        if mode == "match" and isinstance(self.record, LocalRecord):
            return is_in_record_of(self.record, resource, patient)
        return is_of_patient(resource, patient)

    def _fitting(self, shown: Iterable[tuple[str, Resource]]) -> Iterator[tuple[str, Resource]]:
        """Yield the resources that a reply has room for."""
        room = self.limits.bytes * 3 // 4  # Ids, remarks and the query have the rest.
        for count, (mode, resource) in enumerate(shown):
            room -= json_size(resource)
            if room < 0 or count >= 2 * self.limits.rows:
                return
            yield mode, resource

    def _total(self, page: Page) -> int | None:
        """Return the number of matches; that of a server might count other patients' too."""
        is_trusted = self.only_patient is None or isinstance(self.record, LocalRecord)
        return page.total if is_trusted else None

    def _next(self, page: Page) -> str | None:
        is_followed = self.only_patient is None or isinstance(self.record, LocalRecord)
        return page.next if is_followed else None


def reference_of(resource: Resource) -> str:
    """Return `Type/id`."""
    return f"{resource.get('resourceType', '')}/{resource.get('id', '')}"


def time_text(time: datetime | None) -> str:
    """Return a time as ISO 8601; empty for none."""
    return time.isoformat() if time else ""


def _limited(params: Params, rows: int) -> Params:
    """Return parameters that ask for no more rows than a reply may have."""
    asked = [value for name, value in params if name == "_count"]
    wanted = int(asked[-1]) if asked and asked[-1].isdecimal() and len(asked[-1]) < 10 else rows
    others = [(name, value) for name, value in params if name != "_count"]
    return [*others, ("_count", str(min(wanted, rows)))]


def _remarks(cut: int, hidden: int) -> Iterator[str]:
    if cut:
        yield f"{cut} of the page left out: the reply is full. Ask for less with _count or a date."
    if hidden:
        yield f"{hidden} of the page left out: they are not plainly of the patient served."
