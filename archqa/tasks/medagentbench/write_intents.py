"""Intents to write a resource, rendered as a payload in one of two formats.

`benchmark` is what MedAgentBench's grader expects, which departs from FHIR twice (a string for a
route, an object for a note); `r4` is FHIR R4.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from archqa.core.value import FrozenModel
from archqa.tasks.medagentbench.settings import PayloadFormat

NDC = "http://hl7.org/fhir/sid/ndc"

_DEFAULT_PRIORITIES = {PayloadFormat.BENCHMARK: "stat", PayloadFormat.R4: "routine"}
"""The benchmark's function file asks for "stat", whatever an instruction says."""

_UCUM = "http://unitsofmeasure.org"
_CATEGORY_SYSTEMS = {
    "benchmark": "http://hl7.org/fhir/observation-category",
    "r4": "http://terminology.hl7.org/CodeSystem/observation-category",
}


class WriteIntent(FrozenModel):
    """A resource to write about one patient.

    `at` is the time of writing, a FHIR dateTime with a zone.
    """

    resource_type: ClassVar[str]
    patient: str = Field(min_length=1)
    at: str = Field(min_length=1)

    def payload(self, payload_format: PayloadFormat) -> dict[str, Any]:
        """The resource in this format."""
        raise NotImplementedError

    @property
    def subject(self) -> dict[str, str]:
        """The reference to the patient."""
        return {"reference": f"Patient/{self.patient}"}


class VitalSign(WriteIntent):
    """A measured vital sign for a row of the flowsheet, its value as the instruction states it."""

    resource_type = "Observation"
    flowsheet: str = Field(min_length=1)
    value: str = Field(min_length=1)

    def payload(self, payload_format: PayloadFormat) -> dict[str, Any]:
        """An Observation."""
        category = {
            "system": _CATEGORY_SYSTEMS[payload_format],
            "code": "vital-signs",
            "display": "Vital Signs",
        }
        return {
            "resourceType": self.resource_type,
            "category": [{"coding": [category]}],
            "code": {"text": self.flowsheet},
            "effectiveDateTime": self.at,
            "status": "final",
            "valueString": self.value,
            "subject": self.subject,
        }


class MedicationOrder(WriteIntent):
    """An order of a medication by its NDC; `hours` is the duration of an infusion."""

    resource_type = "MedicationRequest"
    ndc: str = Field(min_length=1)
    name: str = Field(min_length=1)
    route: str = Field(min_length=1)
    dose: float = Field(gt=0)
    unit: str = Field(min_length=1)
    hours: float | None = Field(default=None, gt=0)

    def payload(self, payload_format: PayloadFormat) -> dict[str, Any]:
        """A MedicationRequest."""
        coding = {"system": NDC, "code": self.ndc, "display": self.name}
        route: Any = {"text": self.route}
        if payload_format is PayloadFormat.BENCHMARK:
            route = self.route
        return {
            "resourceType": self.resource_type,
            "medicationCodeableConcept": {"coding": [coding], "text": self.name},
            "authoredOn": self.at,
            "dosageInstruction": [{"route": route, "doseAndRate": [self._amounts(payload_format)]}],
            "status": "active",
            "intent": "order",
            "subject": self.subject,
        }

    def _amounts(self, payload_format: PayloadFormat) -> dict[str, Any]:
        amounts = {"doseQuantity": _quantity(self.dose, self.unit, payload_format)}
        if self.hours is None:
            return amounts
        if payload_format is PayloadFormat.BENCHMARK:
            amounts["rateQuantity"] = _quantity(self.hours, "h", payload_format)
        else:
            rate = self.dose / self.hours
            amounts["rateQuantity"] = _quantity(rate, f"{self.unit}/h", payload_format)
        return amounts


class ServiceOrder(WriteIntent):
    """An order of a test or a referral; `when` is the time it is to be done, `note` free text.

    Without a `priority` it is "routine", as FHIR has it, but "stat" in the benchmark's form, whose
    function for a ServiceRequest says 'Use "stat"' (funcs_v1.json).
    """

    resource_type = "ServiceRequest"
    system: str = Field(min_length=1)
    code: str = Field(min_length=1)
    name: str = Field(min_length=1)
    note: str = ""
    when: str = ""
    priority: Literal["routine", "urgent", "asap", "stat"] | None = None

    def payload(self, payload_format: PayloadFormat) -> dict[str, Any]:
        """A ServiceRequest."""
        coding = {"system": self.system, "code": self.code, "display": self.name}
        payload: dict[str, Any] = {
            "resourceType": self.resource_type,
            "code": {"coding": [coding], "text": self.name},
            "authoredOn": self.at,
            "status": "active",
            "intent": "order",
            "priority": self.priority or _DEFAULT_PRIORITIES[payload_format],
            "subject": self.subject,
        }
        if self.note:
            note = {"text": self.note}
            payload["note"] = note if payload_format is PayloadFormat.BENCHMARK else [note]
        if self.when:
            payload["occurrenceDateTime"] = self.when
        return payload


def resource_codes(payload: Mapping[str, Any]) -> list[str]:
    """The codes of the medication or service, else the text of the code."""
    concept = payload.get("medicationCodeableConcept") or payload.get("code")
    if not isinstance(concept, dict):
        return []
    codings = _objects(concept.get("coding"))
    codes = [str(coding["code"]) for coding in codings if coding.get("code")]
    if not codes and concept.get("text"):
        return [str(concept["text"])]
    return codes


def dose_units(payload: Mapping[str, Any]) -> list[str]:
    """The units of the doses of an order."""
    units = []
    for dosage in _objects(payload.get("dosageInstruction")):
        for dose_and_rate in _objects(dosage.get("doseAndRate")):
            quantity = dose_and_rate.get("doseQuantity")
            if isinstance(quantity, dict) and quantity.get("unit"):
                units.append(str(quantity["unit"]))
    return units


def normalize_number(number: float) -> int | float:
    """10.0 as 10, without the rounding errors of arithmetic beyond the tenth decimal."""
    rounded = round(number, 10)
    return int(rounded) if float(rounded).is_integer() else rounded


def _quantity(value: float, unit: str, payload_format: PayloadFormat) -> dict[str, Any]:
    quantity = {"value": normalize_number(value), "unit": unit}
    if payload_format is PayloadFormat.R4:
        quantity.update(system=_UCUM, code=unit)
    return quantity


def _objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a list; none if the value is not a list."""
    if not isinstance(value, list):
        return []
    return [entry for entry in value if isinstance(entry, dict)]
