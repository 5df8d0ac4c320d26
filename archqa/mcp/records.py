"""The record that is served: searched and read within the limits of a call and the restriction."""

import json
from typing import NamedTuple

from pydantic import BaseModel

from archqa.asking.patient import PatientMatch, SeveralPatients, find_patient
from archqa.errors import CallerError
from archqa.fhir import Overlay, Page, Record, Resource
from archqa.fhir.connection import tolerate_refusals
from archqa.fhir.request_budget import RequestLimits
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.urls import parse_search_url, with_count
from archqa.mcp.one_patient import (
    ONE_PATIENT,
    is_in_record_of,
    is_of_patient,
    within_patient,
)
from archqa.mcp.replies import FoundResource, FoundResources
from archqa.safety.server_urls import is_server_url

_ANY_NUMBER = 2**40
_NO_RESOURCE = (
    "There is no such resource in the record, or it is not of the patient served."
)


class CallLimits(NamedTuple):
    """What one call of a tool may use. `rows` counts resources, sentences or rows of a reply."""

    rows: int = 50
    bytes: int = 256 * 1024
    seconds: float = 60.0

    @property
    def for_record(self) -> RequestLimits:
        """The same time for the record's searches; what they read is not what is replied."""
        return RequestLimits(
            self.seconds, resources=_ANY_NUMBER, reply_bytes=_ANY_NUMBER
        )

    @property
    def item_bytes(self) -> int:
        """What the resources or sentences of a reply may have; ids and remarks need a quarter."""
        return self.bytes * 3 // 4

    def check_size(self, reply: BaseModel) -> None:
        """Raise `CallerError` for a reply that is too long, however it is cut."""
        size = json_size(reply.model_dump(mode="json"))
        if size > self.bytes:
            raise CallerError(
                f"The reply has {size} bytes, more than the {self.bytes} that one may have.\n"
                "Ask for less: fewer rows, one section, a date; or start with a larger --max-bytes."
            )


def json_size(value: object) -> int:
    """Return the bytes of a JSON value as it is sent."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


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
        self.partial_record = tolerate_refusals(self.record)
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
            patient_id = (name or "").strip().removeprefix("Patient/")
            if patient_id not in {"", self.only_patient.id}:
                raise CallerError(ONE_PATIENT)
            return self.only_patient
        if not (name or "").strip():
            raise CallerError(
                "Name the patient: a FHIR id, an identifier (MRN) or a name."
            )
        try:
            return find_patient(self.record, name or "")
        except SeveralPatients as error:
            raise CallerError(f"{error}\n{error.details}") from None

    def search(self, query: str) -> FoundResources:
        """Return one page of a search, as much of it as a reply may hold. Raises `FhirError`."""
        page = self._page(query)
        visible = []
        hidden_count = 0
        for entry in page.entries:
            if entry.mode == "outcome":
                continue
            if self._may_show(entry.mode, entry.resource):
                visible.append(entry)
            else:
                hidden_count += 1
        entries = []
        bytes_left = self.limits.item_bytes
        for entry in visible[: 2 * self.limits.rows]:
            bytes_left -= json_size(entry.resource)
            if bytes_left < 0:
                break
            entries.append(entry)
        remarks = [*page.notices]
        cut_count = len(visible) - len(entries)
        if cut_count:
            advice = "Ask for less with _count or a date."
            remarks.append(
                f"{cut_count} of the page left out: the reply is full. {advice}"
            )
        if hidden_count:
            reason = "they are not plainly of the patient served"
            remarks.append(f"{hidden_count} of the page left out: {reason}.")
        matches = [entry.resource for entry in entries if entry.mode == "match"]
        included = [entry.resource for entry in entries if entry.mode == "include"]
        # The total of a server might count other patients' matches too.
        is_trusted = self.only_patient is None or isinstance(self.record, LocalRecord)
        return FoundResources(
            query=page.query,
            total=page.total if is_trusted and not hidden_count else None,
            ids=tuple(map(resource_reference, matches)),
            resources=tuple(matches),
            included=tuple(included),
            next=page.next if is_trusted and not cut_count else None,
            remarks=tuple(remarks),
        )

    def read(self, reference: str) -> FoundResource:
        """Return the resource of `Type/id`. Raises `CallerError` if there is none."""
        resource_type, _, resource_id = reference.strip().partition("/")
        if not resource_id or "/" in resource_id:
            raise CallerError(
                "A resource is named Type/id, for example Observation/123."
            )
        resource = self.record.get(resource_type, resource_id)
        only = self.only_patient
        if resource is not None and only is not None:
            may_read = is_in_record_of(self.record, resource, only.id)
            resource = resource if may_read else None
        if resource is None:
            raise CallerError(_NO_RESOURCE)
        return FoundResource(id=f"{resource_type}/{resource_id}", resource=resource)

    def _page(self, query: str) -> Page:
        """Return a page of a search; a further page may be an address that the server itself made."""
        if is_server_url(query):
            if self.only_patient is not None or not is_server_url(self.location):
                raise CallerError(
                    "A search is written Type?name=value, without a server's address."
                )
            return self.record.search(query)
        path, params = parse_search_url(query)
        if self.only_patient is not None:
            path, params = within_patient(path, params, self.only_patient.id)
        rows = self.limits.rows
        if not any(name == "_count" for name, _ in params):
            params = [*params, ("_count", str(rows))]
        return self.record.search(path, with_count(params, rows))

    def _may_show(self, mode: str, resource: Resource) -> bool:
        """Whether an entry may be shown. A store's own matches are of the patient's compartment."""
        if self.only_patient is None:
            return True
        patient = self.only_patient.id
        if mode == "match" and isinstance(self.record, LocalRecord):
            return is_in_record_of(self.record, resource, patient)
        return is_of_patient(resource, patient)


def resource_reference(resource: Resource) -> str:
    """Return `Type/id`."""
    return f"{resource.get('resourceType', '')}/{resource.get('id', '')}"
