"""Resources to be written: a vital sign, a medication order and a referral."""

from typing import Any

from tests.fhir.invented import codeable_concept

VITAL_SIGN: dict[str, Any] = {
    "resourceType": "Observation",
    "category": [
        {
            "coding": [
                {
                    "system": "http://hl7.org/fhir/observation-category",
                    "code": "vital-signs",
                }
            ]
        }
    ],
    "code": {"text": "BP"},
    "effectiveDateTime": "2023-11-13T10:15:00+00:00",
    "status": "final",
    "valueString": "118/77 mmHg",
    "subject": {"reference": "Patient/p1"},
}


MEDICATION_ORDER: dict[str, Any] = {
    "resourceType": "MedicationRequest",
    "medicationCodeableConcept": codeable_concept(
        "0338-1715-40", system="http://hl7.org/fhir/sid/ndc"
    ),
    "authoredOn": "2023-11-13T10:15:00Z",
    "dosageInstruction": [
        {
            "route": {"text": "IV"},
            "doseAndRate": [{"doseQuantity": {"value": 2, "unit": "g"}}],
        },
    ],
    "status": "active",
    "intent": "order",
    "subject": {"reference": "Patient/p1"},
}


REFERRAL: dict[str, Any] = {
    "resourceType": "ServiceRequest",
    "code": codeable_concept("306181000000106", system="http://snomed.info/sct"),
    "authoredOn": "2023-11-13T10:15:00+00:00",
    "status": "active",
    "intent": "order",
    "priority": "stat",
    "subject": {"reference": "Patient/p1"},
    "note": [{"text": "Situation"}],
}
