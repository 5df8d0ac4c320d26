"""Which patient of a record is asked about, by FHIR id, identifier (MRN) or name.

    find_patient(record, "Lopez, Maria").id

Exactly one patient must fit: several, or none, are an error. Nothing is guessed.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from archqa.asking.candidates import (
    PatientMatch,
    PatientNotFound,
    SeveralPatients,
    TooManyPatients,
)
from archqa.asking.patient_names import AskedName, has_name, read_name
from archqa.fhir import FhirError, Record, Resource

_ID = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9\-._:]{1,128}", re.ASCII)
"""More than FHIR allows (hl7.org/fhir/R4/datatypes.html#id): files are not always valid."""

_CONTAINS = "name:contains"

_MAX_TEXT_LENGTH = 200

_MAX_READ = 500
"""Patients that one search may bring; more cannot be told apart by name."""


def find_patient(record: Record, text: str) -> PatientMatch:
    """Return the patient whose FHIR id (`id`, `Patient/id`), identifier or name is `text`.

    An identifier is a value, or `system|value`; a name is "Given Family" or "Family, Given". An id
    comes before identifiers, these before names. Raises `PatientNotFound`, `SeveralPatients`,
    `TooManyPatients`, and `FhirError` or `ServerUnavailable` for a server that fails.
    """
    asked = " ".join(text.split())
    if not asked.isprintable() or not 0 < len(asked) <= _MAX_TEXT_LENGTH:
        raise PatientNotFound
    patient_id = asked.removeprefix("Patient/")
    patient = _by_id(record, patient_id)
    if patient is not None:
        return patient_match(patient)
    if patient_id != asked:
        raise PatientNotFound
    return _by_identifier(record, asked) or _by_name(record, asked)


def patient_match(resource: Mapping[str, Any]) -> PatientMatch:
    """Return a Patient resource as a match."""
    return PatientMatch(
        id=str(resource.get("id", "")),
        name=_name(resource),
        birth_date=str(resource.get("birthDate") or ""),
        resource=resource,
    )


def _name(resource: Mapping[str, Any]) -> str:
    """Return the official name, else the earliest in the list (hl7.org/fhir/R4, HumanName)."""
    names = [name for name in resource.get("name") or () if isinstance(name, Mapping)]
    names.sort(key=lambda name: name.get("use") != "official")
    for name in names:
        parts = (*(name.get("given") or ()), name.get("family") or "")
        text = str(name.get("text") or " ".join(str(part) for part in parts))
        if text.strip():
            return " ".join(text.split())
    return ""


def _by_id(record: Record, patient_id: str) -> Resource | None:
    if not _ID.fullmatch(patient_id):
        return None
    try:
        return record.get("Patient", patient_id)
    except FhirError as error:
        if error.status == 400:  # A server whose ids look otherwise.
            return None
        raise


def _by_identifier(record: Record, text: str) -> PatientMatch | None:
    """Return the patient of an identifier; None if no patient has it."""
    system, bar, value = text.rpartition("|")
    if not value:
        return None
    token = f"{_escaped(system)}{bar}{_escaped(value)}"
    found = _search(record, [("identifier", token)])
    matches = []
    for patient in found.patients:
        # A server may ignore the parameter, or compare without regard to case.
        if any(
            _is_identifier(own, system if bar else None, value) for own in _identifiers(patient)
        ):
            matches.append(patient_match(patient))
    return _single(matches, "identifier", is_cut=found.is_cut)


def _identifiers(patient: Resource) -> Iterator[Mapping[str, Any]]:
    for identifier in patient.get("identifier") or ():
        if isinstance(identifier, Mapping):
            yield identifier


def _is_identifier(identifier: Mapping[str, Any], system: str | None, value: str) -> bool:
    own_system = identifier.get("system") or ""
    return identifier.get("value") == value and system in (None, own_system)


def _by_name(record: Record, text: str) -> PatientMatch:
    name = read_name(text)
    if name is None:
        raise PatientNotFound
    is_cut = False
    for params in _name_searches(name):
        found = _search_if_known(record, params)
        is_cut |= found.is_cut
        matches = [patient_match(patient) for patient in found.patients if has_name(patient, name)]
        match = _single(matches, "name", is_cut=is_cut)
        if match is not None:
            return match
    if is_cut:
        raise TooManyPatients(_MAX_READ)
    raise PatientNotFound


def _name_searches(name: AskedName) -> Iterator[list[tuple[str, str]]]:
    """Yield searches that bring all patients of this name, the widest first.

    Without the modifier a server may know "Maria Elena" by its beginning alone
    (hl7.org/fhir/R4/search.html#string).
    """
    yield [(_CONTAINS, _escaped(piece)) for piece in name.pieces]
    beginnings = sorted(map(_escaped, name.beginnings), key=len, reverse=True)
    yield [("name", beginning) for beginning in beginnings]
    if len(beginnings) > 1:
        yield from ([("name", beginning)] for beginning in beginnings)


class _Found(NamedTuple):
    """Patients that a search brings; `is_cut` if there are more."""

    patients: list[Resource]
    is_cut: bool


def _search(record: Record, params: list[tuple[str, str]]) -> _Found:
    pairs = [*params, ("_count", "100")]
    patients = list(islice(record.search_all("Patient", pairs), _MAX_READ + 1))
    return _Found(patients[:_MAX_READ], len(patients) > _MAX_READ)


def _search_if_known(record: Record, params: list[tuple[str, str]]) -> _Found:
    """Search by name; a server that does not know the modifier finds nobody."""
    try:
        return _search(record, params)
    except FhirError:
        if params[0][0] == _CONTAINS:
            return _Found([], is_cut=False)
        raise


def _single(matches: list[PatientMatch], what: str, *, is_cut: bool) -> PatientMatch | None:
    """Return the only match, None if there is none. Raises `SeveralPatients`.

    Where a search is cut, the patients that were not read may fit as well.
    """
    if len(matches) > 1:
        raise SeveralPatients(matches, what, is_cut=is_cut)
    return matches[0] if matches and not is_cut else None


def _escaped(text: str) -> str:
    """Return a text as a search value (hl7.org/fhir/R4/search.html#escaping)."""
    return re.sub(r"([\\,|$])", r"\\\1", text)
