"""What is to be written, held as an intent until it is settled, and rendered in one of two shapes.

`benchmark` is what MedAgentBench's grader wants, which is not FHIR in two places (a string for a route, an object for a
note); `r4` is FHIR R4.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from archqa.core.value import FrozenModel
from archqa.tasks.medagentbench.settings import PayloadFormat

NDC = "http://hl7.org/fhir/sid/ndc"
LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
_UCUM = "http://unitsofmeasure.org"
_VITALS = {
    "benchmark": "http://hl7.org/fhir/observation-category",
    "r4": "http://terminology.hl7.org/CodeSystem/observation-category",
}


class WriteIntent(FrozenModel):
    """Something to be written about one patient. `at` is the time it is written, in FHIR's form with a zone."""

    kind: ClassVar[str]
    patient: str = Field(min_length=1)
    at: str = Field(min_length=1)

    def payload(self, shape: PayloadFormat) -> dict[str, Any]:
        """The resource, in this shape."""
        raise NotImplementedError

    @property
    def subject(self) -> dict[str, str]:
        """The reference to the patient."""
        return {"reference": f"Patient/{self.patient}"}


class VitalSign(WriteIntent):
    """A measured vital sign for a row of the flowsheet, its value as it was said."""

    kind = "Observation"
    flowsheet: str = Field(min_length=1)
    value: str = Field(min_length=1)

    def payload(self, shape: PayloadFormat) -> dict[str, Any]:
        """An Observation."""
        category = {"system": _VITALS[shape], "code": "vital-signs", "display": "Vital Signs"}
        return {
            "resourceType": self.kind,
            "category": [{"coding": [category]}],
            "code": {"text": self.flowsheet},
            "effectiveDateTime": self.at,
            "status": "final",
            "valueString": self.value,
            "subject": self.subject,
        }


class MedicationOrder(WriteIntent):
    """An order of a medication by its NDC: a dose, and the hours over which it is given where that is said."""

    kind = "MedicationRequest"
    ndc: str = Field(min_length=1)
    name: str = Field(min_length=1)
    route: str = Field(min_length=1)
    dose: float = Field(gt=0)
    unit: str = Field(min_length=1)
    hours: float | None = Field(default=None, gt=0)

    def payload(self, shape: PayloadFormat) -> dict[str, Any]:
        """A MedicationRequest."""
        coding = {"system": NDC, "code": self.ndc, "display": self.name}
        route: Any = self.route if shape is PayloadFormat.BENCHMARK else {"text": self.route}
        return {
            "resourceType": self.kind,
            "medicationCodeableConcept": {"coding": [coding], "text": self.name},
            "authoredOn": self.at,
            "dosageInstruction": [{"route": route, "doseAndRate": [self._amounts(shape)]}],
            "status": "active",
            "intent": "order",
            "subject": self.subject,
        }

    def _amounts(self, shape: PayloadFormat) -> dict[str, Any]:
        amounts = {"doseQuantity": _quantity(self.dose, self.unit, shape)}
        if self.hours is None:
            return amounts
        if shape is PayloadFormat.BENCHMARK:
            return {**amounts, "rateQuantity": _quantity(self.hours, "h", shape)}
        return {
            **amounts,
            "rateQuantity": _quantity(self.dose / self.hours, f"{self.unit}/h", shape),
        }


class ServiceOrder(WriteIntent):
    """An order of a test or a referral; `when` is the time it is to be done, `note` free text."""

    kind = "ServiceRequest"
    system: str = Field(min_length=1)
    code: str = Field(min_length=1)
    name: str = Field(min_length=1)
    note: str = ""
    when: str = ""

    def payload(self, shape: PayloadFormat) -> dict[str, Any]:
        """A ServiceRequest."""
        note: Any = (
            {"text": self.note} if shape is PayloadFormat.BENCHMARK else [{"text": self.note}]
        )
        optional = {"note": note if self.note else None, "occurrenceDateTime": self.when or None}
        return {
            "resourceType": self.kind,
            "code": {
                "coding": [{"system": self.system, "code": self.code, "display": self.name}],
                "text": self.name,
            },
            "authoredOn": self.at,
            "status": "active",
            "intent": "order",
            "priority": "stat",
            "subject": self.subject,
            **{name: value for name, value in optional.items() if value is not None},
        }


def resource_codes(payload: Mapping[str, Any]) -> list[str]:
    """The codes that say what a resource is about: of its medication or service, else the text of its code."""
    concept = payload.get("medicationCodeableConcept") or payload.get("code")
    if not isinstance(concept, dict):
        return []
    codings = concept.get("coding") if isinstance(concept.get("coding"), list) else []
    codes = [
        str(each["code"]) for each in codings or [] if isinstance(each, dict) and each.get("code")
    ]
    return codes or ([str(concept["text"])] if concept.get("text") else [])


def dose_units(payload: Mapping[str, Any]) -> list[str]:
    """The units of the doses of an order."""
    rates = [
        rate
        for dosage in _rows(payload.get("dosageInstruction"))
        for rate in _rows(dosage.get("doseAndRate"))
    ]
    quantities = [each.get("doseQuantity") for each in rates]
    return [str(each["unit"]) for each in quantities if isinstance(each, dict) and each.get("unit")]


def normalize_number(number: float) -> int | float:
    """10.0 as 10; what arithmetic left behind the tenth decimal is dropped."""
    rounded = round(number, 10)
    return int(rounded) if float(rounded).is_integer() else rounded


def _quantity(value: float, unit: str, shape: PayloadFormat) -> dict[str, Any]:
    quantity = {"value": normalize_number(value), "unit": unit}
    return (
        quantity
        if shape is PayloadFormat.BENCHMARK
        else {**quantity, "system": _UCUM, "code": unit}
    )


def _rows(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
