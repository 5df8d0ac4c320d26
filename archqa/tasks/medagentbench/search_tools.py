"""Typed tools that look: patients, laboratory results, vital signs, problems, medications, procedures.

Arguments are names, codes and hours, never URLs; results are small.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import Field

from archqa.core.value import FrozenModel
from archqa.fhir.record import Resource
from archqa.tasks.medagentbench.clock import format_datetime
from archqa.tasks.medagentbench.tool_implementations import ActionFailed, resource_reference
from archqa.tasks.medagentbench.typed_tool import ClinicalTool

_MOST = 50
"""Resources that are shown of one search."""

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

    def act(self, args: PatientArgs) -> dict[str, Any]:
        """Search patients."""
        if not any(args.model_dump().values()):
            raise ActionFailed(
                "Give at least one of identifier, name, family, given and birthdate."
            )
        return _shown(self.hands.patients(**args.model_dump()))


class LabArgs(FrozenModel):
    """One measurement of one patient."""

    patient: str = Patient
    code: str = Field(
        min_length=1, description="the laboratory's short name, as the context gives it"
    )
    within_hours: float | None = Hours


class SearchLabs(ClinicalTool[LabArgs]):
    """Laboratory results, the latest first."""

    name = "search_labs"
    description = "Finds the measurements of one code of one patient, the latest first, with value, unit and time."
    takes = LabArgs

    def act(self, args: LabArgs) -> dict[str, Any]:
        """Search observations by code."""
        since = self.now - timedelta(hours=args.within_hours) if args.within_hours else None
        return _shown(self.hands.measured(args.patient, args.code, since))


class RecordArgs(FrozenModel):
    """One patient, perhaps only lately."""

    patient: str = Patient
    within_hours: float | None = Hours


class RecordSearch(ClinicalTool[RecordArgs]):
    """A search of one kind of resource of one patient."""

    takes = RecordArgs
    kind: ClassVar[str]
    extra: ClassVar[tuple[tuple[str, str], ...]] = ()

    def act(self, args: RecordArgs) -> dict[str, Any]:
        """Search the kind by patient and time."""
        since = (
            format_datetime(self.now - timedelta(hours=args.within_hours))
            if args.within_hours
            else ""
        )
        dates = [("date", f"ge{since}")] if since else []
        return _shown(
            self.hands.search(self.kind, [("patient", args.patient), *self.extra, *dates])
        )


class SearchVitals(RecordSearch):
    """Vital signs."""

    name, kind = "search_vitals", "Observation"
    description = "Finds the vital signs of a patient."
    extra = (("category", "vital-signs"),)


class SearchProblems(RecordSearch):
    """The problem list."""

    name, kind = "search_problems", "Condition"
    description = "Finds the problem list of a patient; within_hours has no effect."

    def act(self, args: RecordArgs) -> dict[str, Any]:
        """Search conditions; they have no date parameter."""
        return _shown(self.hands.search(self.kind, [("patient", args.patient)]))


class SearchMedications(RecordSearch):
    """Medication orders."""

    name, kind = "search_medications", "MedicationRequest"
    description = "Finds the medication orders of a patient."


class SearchProcedures(RecordSearch):
    """Procedures."""

    name, kind = "search_procedures", "Procedure"
    description = "Finds the procedures done on a patient."


def _shown(found: Iterable[Resource]) -> dict[str, Any]:
    """Resources made small, and how many there are in all."""
    resources = list(found)
    return {"found": len(resources), "resources": [_small(each) for each in resources[:_MOST]]}


def _small(resource: Resource) -> dict[str, Any]:
    quantity = resource.get("valueQuantity") or {}
    concept = resource.get("code") or resource.get("medicationCodeableConcept") or {}
    fields = {
        "id": resource_reference(resource),
        "what": concept.get("text")
        or next((each.get("display") for each in concept.get("coding") or []), None),
        "value": quantity.get("value", resource.get("valueString")),
        "unit": quantity.get("unit"),
        "time": next((resource[name] for name in _TIMES if name in resource), None),
        "status": resource.get("status"),
        "name": list(resource.get("name") or []) or None,
        "birthDate": resource.get("birthDate"),
        "record_number": [each.get("value") for each in resource.get("identifier") or []] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


_TIMES = ("effectiveDateTime", "authoredOn", "performedDateTime", "onsetDateTime", "recordedDate")
