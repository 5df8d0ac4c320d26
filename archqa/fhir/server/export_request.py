"""The kick-off of a bulk export: which resources a client asks for.

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html, "Bulk Data Kick-off Request".
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from archqa.core.value import FrozenModel
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.outcome import FhirError
from archqa.fhir.server.handling import GENERAL_PARAMETERS, preferred_handling
from archqa.fhir.values import dates
from archqa.fhir.values.request_json import InvalidBody, parse_request_body
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.urls import Params

if TYPE_CHECKING:
    from archqa.fhir.server.operations import OperationCall

_OUTPUT_FORMATS = frozenset({"application/fhir+ndjson", "application/ndjson", "ndjson"})

_SUPPORTED = frozenset({"_outputFormat", "_since", "_type", "patient"})

_UNSUPPORTED = frozenset(
    {"_elements", "_typeFilter", "includeAssociatedData", "organizeOutputBy", "_until"}
)
"""Parameters of the guide (2.0 and its successor) that the server does not support."""


class ExportRequest(FrozenModel):
    """What to export: all types if `types` is None, of all patients if `patients` is None.

    `since` is in UTC microseconds. With `of_patients`, only resources about patients. `ignored` says
    what of the request is left out of account.
    """

    types: tuple[str, ...] | None = None
    since: int | None = None
    of_patients: bool = False
    patients: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()


def read_export_request(record: LocalRecord, call: "OperationCall") -> ExportRequest:
    """Return what a kick-off asks for. Raises `FhirError` with every mistake of the request."""
    is_post = call.method == "POST"
    params = [*call.params, *_body_params(call.body)] if is_post else call.params
    is_lenient = preferred_handling(call.headers) is True
    reader = _RequestReader(is_lenient, is_post=is_post)
    for name, value in params:
        reader.read(name, value)
    if "respond-async" not in _preferences(call.headers):
        reader.mistakes.insert(0, "An export is asynchronous: send Prefer: respond-async.")
    if reader.patients is not None and not call.resource_type:
        reader.mistakes.append("patient is for Patient/$export and Group/[id]/$export.")
    if reader.mistakes:
        raise FhirError(reader.mistakes, 400, "invalid")
    patients = reader.patients
    if call.resource_id:
        members = _members(record, call.resource_id)
        patients = members if patients is None else patients & members
    return ExportRequest(
        types=None if reader.types is None else tuple(reader.types),
        since=reader.since,
        of_patients=bool(call.resource_type),
        patients=None if patients is None else tuple(sorted(patients)),
        ignored=tuple(reader.ignored),
    )


class _RequestReader:
    """Reads parameters one by one; lenient, it passes over those that it does not support."""

    def __init__(self, is_lenient: bool, *, is_post: bool) -> None:
        self._is_lenient = is_lenient
        self._is_post = is_post
        self.types: list[str] | None = None
        self.since: int | None = None
        self.patients: set[str] | None = None
        self.mistakes: list[str] = []
        self.ignored: list[str] = []

    def read(self, name: str, value: str) -> None:
        """Read one parameter."""
        if name == "_outputFormat":
            self._read_output_format(value)
        elif name in GENERAL_PARAMETERS:
            return
        elif name == "_since":
            self._read_since(value)
        elif name == "_type":
            self._read_types(value)
        elif name == "patient" and self._is_post:
            self._read_patients(value)
        else:
            self._pass_over(name)

    def _read_output_format(self, value: str) -> None:
        if value.replace(" ", "+") not in _OUTPUT_FORMATS:
            self.mistakes.append("_outputFormat: only application/fhir+ndjson is written.")

    def _read_since(self, value: str) -> None:
        moment = dates.parse_time_range(value)
        if moment is None or "T" not in value:
            self.mistakes.append("_since is no instant such as 2030-01-31T12:00:00Z.")
        elif self.since is not None:
            self.mistakes.append("_since may be there once.")
        else:
            self.since = moment.low_utc

    def _read_types(self, value: str) -> None:
        names = [name.strip() for name in value.split(",")]
        self.types = self.types or []
        for name in names:
            if name in R4_RESOURCE_TYPES:
                if name not in self.types:
                    self.types.append(name)
                continue
            hint = did_you_mean(name, R4_RESOURCE_TYPES)
            self._note(f"_type: there is no such resource type.{hint}")

    def _read_patients(self, value: str) -> None:
        patients = self.patients or set()
        patients.add(value.rpartition("/")[2])
        self.patients = patients

    def _pass_over(self, name: str) -> None:
        if name in _UNSUPPORTED:
            self._note(f"{name} is not supported by this server.")
        elif name == "patient":
            self._note("patient is for a POST of Parameters.")
        else:
            hint = did_you_mean(name, _SUPPORTED)
            supported = ", ".join(sorted(_SUPPORTED))
            self._note(f"$export has no such parameter.{hint} It has {supported}.")

    def _note(self, text: str) -> None:
        notes = self.ignored if self._is_lenient else self.mistakes
        if text not in notes:
            notes.append(text)


def _preferences(headers: Mapping[str, str]) -> set[str]:
    """Return the parts of the `Prefer` header (RFC 7240)."""
    parts = re.split("[,;]", headers.get("prefer", "").lower())
    return {"".join(part.split()) for part in parts}


def _body_params(body: str) -> Params:
    """Return the parameters of a Parameters resource. Raises `FhirError` if it is none."""
    try:
        resource = parse_request_body(body)
    except InvalidBody as error:
        raise FhirError(f"The body {error}") from None
    if not isinstance(resource, dict) or resource.get("resourceType") != "Parameters":
        raise FhirError("The body of a POST to $export is a Parameters resource.")
    parameters = resource.get("parameter", [])
    if not isinstance(parameters, list):
        raise FhirError("The parameter of a Parameters resource is a list.")
    return [_body_param(parameter) for parameter in parameters]


def _body_param(parameter: Any) -> tuple[str, str]:
    if isinstance(parameter, dict) and isinstance(parameter.get("name"), str):
        for member, value in parameter.items():
            if member == "valueReference" and isinstance(value, dict):
                value = value.get("reference")
            if member.startswith("value") and isinstance(value, str):
                return parameter["name"], value
    raise FhirError("Each parameter of $export has a name and a value in one string.")


def _members(record: LocalRecord, group_id: str) -> set[str]:
    """Return the ids of the patients in a Group. Raises `FhirError` (404) if there is no such one.

    Source: hl7.org/fhir/R4/group.html.
    """
    text = record.text("Group", group_id)
    if text is None:
        raise FhirError("There is no Group of that id.", 404, "not-found")
    patients: set[str] = set()
    for member in json.loads(text).get("member") or []:
        reference = (member.get("entity") or {}).get("reference", "")
        resource_type, _, patient = reference.partition("/")
        if resource_type == "Patient" and member.get("inactive") is not True:
            patients.add(patient)
    return patients
