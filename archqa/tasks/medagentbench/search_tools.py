"""Typed tools that search.

They find patients, laboratory results, vital signs, problems, medications and procedures.

Arguments are names, codes and hours, never URLs; results are short summaries of resources.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import Field

from archqa.core.value import FrozenModel
from archqa.fhir.record import Resource
from archqa.tasks.medagentbench.clock import format_datetime
from archqa.tasks.medagentbench.tool_implementations import ActionFailed
from archqa.tasks.medagentbench.typed_tool import Arguments, ClinicalTool

_MAX_RESOURCES = 50
"""Resources shown of one search."""
_TIME_ELEMENTS = (
    "effectiveDateTime",
    "authoredOn",
    "performedDateTime",
    "onsetDateTime",
    "recordedDate",
)

Patient = Field(description="the patient's record number", min_length=1)
Hours = Field(default=None, gt=0, description="only what is at most so many hours old")


class PatientArgs(FrozenModel):
    """What is known of a patient."""

    identifier: str = Field(default="", description="the record number")
    name: str = Field(default="", description="any one word of the name")
    family: str = ""
    given: str = ""
    birthdate: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\d)?$", description="YYYY-MM-DD")


class FindPatients(ClinicalTool[PatientArgs]):
    """Patients by number, name or date of birth."""

    name = "find_patients"
    description = "Finds patients by record number, name or date of birth."
    takes = PatientArgs

    def execute(self, args: PatientArgs) -> dict[str, Any]:
        """Search patients."""
        if not any(args.model_dump().values()):
            raise ActionFailed(
                "Give at least one of identifier, name, family, given and birthdate."
            )
        patients = self.implementations.search_patients(**args.model_dump())
        if patients:
            return _summarise(patients)
        return {**_summarise(patients), "remark": self._remark(args)}

    def _remark(self, args: PatientArgs) -> str:
        """Say that nobody was found, and whether somebody has the record number alone."""
        known = args.identifier and self.implementations.session.has_patient(args.identifier)
        if known:
            return (
                f"The record has a patient {args.identifier[:40]}, but none who fits all of what "
                "is asked."
            )
        return "The record has no such patient."


class LabArgs(FrozenModel):
    """One measurement of one patient."""

    patient: str = Patient
    code: str = Field(
        min_length=1, description="the laboratory's short name, as the context gives it"
    )
    within_hours: float | None = Hours


class PatientSearch(ClinicalTool[Arguments]):
    """A search about one patient."""

    def summarise_of_patient(self, patient: str, resources: Sequence[Resource]) -> dict[str, Any]:
        """The summaries; if there is none, whether the record has the patient at all."""
        summary = _summarise(resources)
        if resources:
            return summary
        number = patient[:40]
        known = self.implementations.session.has_patient(patient.removeprefix("Patient/"))
        remark = f"The record has the patient {number}, but nothing of the kind that is asked for."
        if known is False:
            remark = f"The record has no patient {number}: check the record number."
        elif known is None:
            remark = f"Whether the record has the patient {number} could not be found out."
        return {**summary, "patient_known": known, "remark": remark}


class SearchLabs(PatientSearch[LabArgs]):
    """Laboratory results, the latest first."""

    name = "search_labs"
    description = "Finds the measurements of one code of one patient, the latest first, with value, unit and time."
    takes = LabArgs

    def execute(self, args: LabArgs) -> dict[str, Any]:
        """Search observations by code."""
        since = self.now - timedelta(hours=args.within_hours) if args.within_hours else None
        measurements = self.implementations.search_measurements(args.patient, args.code, since)
        return self.summarise_of_patient(args.patient, measurements)


class RecordArgs(FrozenModel):
    """One patient, perhaps only lately."""

    patient: str = Patient
    within_hours: float | None = Hours


class RecordSearch(PatientSearch[RecordArgs]):
    """A search of one resource type of one patient."""

    takes = RecordArgs
    resource_type: ClassVar[str]
    fixed_params: ClassVar[tuple[tuple[str, str], ...]] = ()

    def execute(self, args: RecordArgs) -> dict[str, Any]:
        """Search the type by patient and time."""
        params = [("patient", args.patient), *self.fixed_params]
        if args.within_hours:
            since = self.now - timedelta(hours=args.within_hours)
            params.append(("date", f"ge{format_datetime(since)}"))
        resources = self.implementations.search(self.resource_type, params)
        return self.summarise_of_patient(args.patient, resources)


class SearchVitals(RecordSearch):
    """Vital signs."""

    name = "search_vitals"
    resource_type = "Observation"
    description = "Finds the vital signs of a patient."
    fixed_params = (("category", "vital-signs"),)


class SearchProblems(RecordSearch):
    """The problem list."""

    name = "search_problems"
    resource_type = "Condition"
    description = "Finds the problem list of a patient; within_hours has no effect."

    def execute(self, args: RecordArgs) -> dict[str, Any]:
        """Search conditions; they have no date parameter."""
        params = [("patient", args.patient)]
        resources = self.implementations.search(self.resource_type, params)
        return self.summarise_of_patient(args.patient, resources)


class SearchMedications(RecordSearch):
    """Medication orders."""

    name = "search_medications"
    resource_type = "MedicationRequest"
    description = "Finds the medication orders of a patient."


class SearchProcedures(RecordSearch):
    """Procedures."""

    name = "search_procedures"
    resource_type = "Procedure"
    description = "Finds the procedures done on a patient."


def _summarise(resources: Sequence[Resource]) -> dict[str, Any]:
    """Summaries of the first resources, and the number of all."""
    summaries = [_summary(resource) for resource in resources[:_MAX_RESOURCES]]
    return {"found": len(resources), "resources": summaries}


def _summary(resource: Resource) -> dict[str, Any]:
    """The elements of a resource that tasks ask about, without those it lacks."""
    quantity = resource.get("valueQuantity") or {}
    identifiers = [identifier.get("value") for identifier in resource.get("identifier") or []]
    fields = {
        "id": f"{resource.get('resourceType')}/{resource.get('id')}",
        "what": _concept_text(resource),
        "value": quantity.get("value", resource.get("valueString")),
        "unit": quantity.get("unit"),
        "time": _first_time(resource),
        "status": resource.get("status"),
        "name": list(resource.get("name") or []) or None,
        "birthDate": resource.get("birthDate"),
        "record_number": identifiers or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _concept_text(resource: Resource) -> Any:
    """The text of the code or medication, else the display of its first coding."""
    concept = resource.get("code") or resource.get("medicationCodeableConcept") or {}
    if concept.get("text"):
        return concept["text"]
    codings = concept.get("coding") or []
    return codings[0].get("display") if codings else None


def _first_time(resource: Resource) -> Any:
    for element in _TIME_ELEMENTS:
        if element in resource:
            return resource[element]
    return None
