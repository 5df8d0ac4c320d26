"""The patient whom a question of the page is about: found in the record, or to be chosen."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from archqa.asking.candidates import PatientMatch, PatientNotFound, SeveralPatients
from archqa.asking.near_patients import near_patients
from archqa.asking.patient import find_patient
from archqa.errors import CallerError
from archqa.fhir import connect

_MEDICAL_RECORD_NUMBER = "MR"
"""The type of an MRN (terminology.hl7.org/CodeSystem/v2-0203)."""

NO_PATIENT = (
    "The record has no patient of this id, identifier or name. "
    "An identifier is compared exactly, a name by whole words."
)


class AskedPatient(NamedTuple):
    """What tells a patient from others; texts that the record does not have are empty."""

    id: str
    name: str
    birth_date: str
    gender: str
    identifier: str

    @property
    def details(self) -> str:
        """Birth date, sex and identifier in words."""
        born = f"born {self.birth_date}" if self.birth_date else "birth date unknown"
        mrn = f"MRN {self.identifier}" if self.identifier else ""
        return ", ".join(filter(None, [born, self.gender or "sex unknown", mrn]))


class PatientToChoose(CallerError):
    """No single patient fits what was typed. `candidates` may be meant; there may be none."""

    def __init__(self, message: str, candidates: Iterable[AskedPatient]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(message)


def find_asked_patient(record: str, text: str, *, allow_plain_http: bool) -> AskedPatient:
    """Return the patient of an id, identifier or name.

    Raises `PatientToChoose`, and as `find_patient` and `connect` do.
    """
    with connect(record, allow_plain_http=allow_plain_http) as opened:
        try:
            return asked_patient(find_patient(opened, text))
        except SeveralPatients as error:
            raise PatientToChoose(_several(error), map(asked_patient, error.candidates)) from None
        except PatientNotFound:
            near = tuple(map(asked_patient, near_patients(opened, text)))
            meant = " Is one of these meant?" if near else ""
            raise PatientToChoose(f"{NO_PATIENT}{meant}", near) from None


def asked_patient(match: PatientMatch) -> AskedPatient:
    """Return a patient that was found as the page names them."""
    return AskedPatient(
        id=match.id,
        name=match.name,
        birth_date=match.birth_date,
        gender=str(match.resource.get("gender") or ""),
        identifier=_identifier(match.resource),
    )


def _several(error: SeveralPatients) -> str:
    at_least = "At least " if error.is_cut else ""
    shown = f", {len(error.candidates)} of them here" if error.count > len(error.candidates) else ""
    return f"{at_least}{error.count} patients of the record are called so{shown}. Choose one."


def _identifier(patient: Mapping[str, Any]) -> str:
    """Return the MRN; a patient's only identifier is taken for one."""
    identifiers = [row for row in patient.get("identifier") or () if isinstance(row, Mapping)]
    for identifier in identifiers:
        if _MEDICAL_RECORD_NUMBER in _type_codes(identifier):
            return str(identifier.get("value") or "")
    return str(identifiers[0].get("value") or "") if len(identifiers) == 1 else ""


def _type_codes(identifier: Mapping[str, Any]) -> Iterator[str]:
    kind = identifier.get("type")
    for coding in kind.get("coding") or () if isinstance(kind, Mapping) else ():
        if isinstance(coding, Mapping):
            yield str(coding.get("code") or "")
