"""Small invented resources of a clinic's record, with statuses of every sort."""

from collections.abc import Callable
from typing import Any

from archqa.query import QueryResult, When

Resource = dict[str, Any]
Ask = Callable[..., QueryResult]
"""What the fixture `ask` gives: resources, the kind of rows, and the fields of a query."""

LAST = When(position="last")

LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
SUBJECT = {"reference": "Patient/p"}
NOW = "2026-11-23T12:00:00"
_PROFILE_CATEGORY = "http://hl7.org/fhir/us/core/CodeSystem/careplan-category"
_INTERPRETATION = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"


def coded(code: str, display: str, system: str = SNOMED) -> Resource:
    return {"coding": [{"system": system, "code": code, "display": display}]}


def status_concept(code: str) -> Resource:
    return {"coding": [{"code": code}]}


def resource(resource_type: str, resource_id: str, **fields: Any) -> Resource:
    """A resource about the patient; elements that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {
        "resourceType": resource_type,
        "id": resource_id,
        "subject": SUBJECT,
        **given,
    }


def problem(
    problem_id: str, name: str, clinical: str = "active", **fields: Any
) -> Resource:
    verification = fields.pop("verification", "confirmed")
    concept = fields.pop("code", coded(f"9{problem_id}", name))
    return resource(
        "Condition",
        problem_id,
        clinicalStatus=status_concept(clinical),
        verificationStatus=status_concept(verification),
        code=concept,
        **fields,
    )


def order(order_id: str, name: str, status: str = "active", **fields: Any) -> Resource:
    concept = fields.pop("concept", coded(f"8{order_id}", name, RXNORM))
    given = {"intent": "order", "authoredOn": "2020-01-05T10:00:00Z", **fields}
    return resource(
        "MedicationRequest",
        order_id,
        status=status,
        medicationCodeableConcept=concept,
        **given,
    )


def result(
    result_id: str, code: str, name: str, time: str, value: Any, **fields: Any
) -> Resource:
    """A final result: a number with its unit as a pair, or a text."""
    given: Resource = {"status": "final", "code": coded(code, name, LOINC)}
    if isinstance(value, tuple):
        given["valueQuantity"] = {"value": value[0], "unit": value[1]}
    elif value is not None:
        given["valueString"] = value
    given["effectiveDateTime"] = time
    return resource("Observation", result_id, **{**given, **fields})


def interpretation(code: str) -> list[Resource]:
    return [{"coding": [{"system": _INTERPRETATION, "code": code}]}]


def reference_range(low: float | None, high: float | None, unit: str) -> list[Resource]:
    bounds: Resource = {}
    if low is not None:
        bounds["low"] = {"value": low, "unit": unit}
    if high is not None:
        bounds["high"] = {"value": high, "unit": unit}
    return [bounds]


def blood_pressure(
    result_id: str, time: str, systolic: float, diastolic: float
) -> Resource:
    parts = (("8480-6", "Systolic BP", systolic), ("8462-4", "Diastolic BP", diastolic))
    components = []
    for code, name, value in parts:
        quantity = {"value": value, "unit": "mm[Hg]"}
        components.append({"code": coded(code, name, LOINC), "valueQuantity": quantity})
    return result(
        result_id, "85354-9", "Blood pressure panel", time, None, component=components
    )


def contact(contact_id: str, class_code: str, start: str, **fields: Any) -> Resource:
    period = {"start": start, "end": fields.pop("end", start)}
    if period["end"] is None:
        del period["end"]
    given = {"status": "finished", "class": {"code": class_code}, "period": period}
    return resource("Encounter", contact_id, **{**given, **fields})


def care_plan(plan_id: str, name: str, status: str, **fields: Any) -> Resource:
    own_category = {"coding": [{"system": _PROFILE_CATEGORY, "code": "assess-plan"}]}
    return resource(
        "CarePlan",
        plan_id,
        status=status,
        intent="plan",
        category=[own_category, coded(f"7{plan_id}", name)],
        **fields,
    )


PEOPLE: list[Resource] = [
    {
        "resourceType": "Practitioner",
        "id": "d1",
        "name": [{"family": "Okafor", "prefix": ["Dr."]}],
    },
    {
        "resourceType": "Organization",
        "id": "g1",
        "name": "Hill Clinic",
        "type": [{"text": "prov"}],
    },
    {
        "resourceType": "Location",
        "id": "l1",
        "name": "Medical Intensive Care Unit (MICU)",
    },
    {
        "resourceType": "PractitionerRole",
        "id": "w1",
        "practitioner": {"reference": "Practitioner/d1"},
        "organization": {"reference": "Organization/g1"},
    },
]


def names(answer: QueryResult) -> list[str]:
    return [row.name for row in answer.chosen]


def refs(answer: QueryResult) -> list[str]:
    return [row.refs[0] for row in answer.chosen]


def clinic_record() -> list[Resource]:
    """A record with resources of every declared kind of rows."""
    own = {"patient": SUBJECT}
    drug = {"medicationCodeableConcept": coded("1", "Enoxaparin 40 MG", RXNORM)}
    period = {"start": "2020-01-01", "end": "2020-02-01"}
    by_doctor = {"performer": [{"actor": {"reference": "Practitioner/d1"}}]}
    dosage = {
        "text": "one a day",
        "timing": {"repeat": {"frequency": 1, "period": 1, "periodUnit": "d"}},
        "doseAndRate": [{"doseQuantity": {"value": 10, "unit": "mg"}}],
        "route": coded("PO", "Oral"),
    }
    activity = {
        "detail": {"code": coded("11", "Low salt diet"), "status": "in-progress"}
    }
    return [
        *PEOPLE,
        contact(
            "e",
            "IMP",
            "2020-01-01",
            location=[{"location": {"reference": "Location/l1"}}],
        ),
        problem(
            "c",
            "Asthma",
            encounter={"reference": "Encounter/e"},
            onsetDateTime="2019-01-01",
        ),
        order(
            "r",
            "Lisinopril 10 MG",
            dosageInstruction=[dosage],
            reasonReference=[_CONDITION],
        ),
        blood_pressure("b", "2020-01-01T08:00:00Z", 120, 80),
        result(
            "o",
            "2339-0",
            "Glucose",
            "2020-01-01T08:00:00Z",
            (200, "mg/dL"),
            interpretation=interpretation("H"),
            referenceRange=reference_range(70, 100, "mg/dL"),
        ),
        resource(
            "MedicationAdministration", "a", status="completed", **drug, **by_doctor
        ),
        resource(
            "MedicationStatement", "t", status="active", effectivePeriod=period, **drug
        ),
        resource("MedicationDispense", "h", status="completed", **drug),
        resource(
            "Procedure",
            "q",
            status="completed",
            code=coded("12", "Biopsy"),
            **by_doctor,
        ),
        resource("AllergyIntolerance", "y", code=coded("13", "Latex"), **own),
        resource(
            "Immunization",
            "i",
            status="completed",
            vaccineCode=coded("14", "MMR"),
            **own,
        ),
        care_plan(
            "p", "Asthma", "active", activity=[activity], goal=[{"reference": "Goal/g"}]
        ),
        resource(
            "Goal", "g", lifecycleStatus="active", description={"text": "Run a mile"}
        ),
        resource("CareTeam", "k", status="active", participant=[{"member": SUBJECT}]),
        resource("Device", "d", status="active", type=coded("15", "Pacemaker"), **own),
        resource(
            "SupplyDelivery",
            "s",
            status="completed",
            suppliedItem={"quantity": {"value": 5}},
            **own,
        ),
        resource(
            "DiagnosticReport", "x", status="final", code=coded("16", "Chest X-ray")
        ),
        resource(
            "ImagingStudy", "m", status="available", procedureCode=[coded("17", "CT")]
        ),
        resource(
            "FamilyMemberHistory",
            "f",
            status="completed",
            relationship={"text": "mother"},
            condition=[{"code": coded("18", "Stroke")}],
            **own,
        ),
        resource("Coverage", "v", status="active", period=period, beneficiary=SUBJECT),
        resource(
            "Appointment",
            "ap",
            status="booked",
            start="2020-03-02T09:00:00Z",
            description="Asthma clinic",
            participant=[{"actor": SUBJECT, "status": "accepted"}],
        ),
        resource(
            "Procedure",
            "nd",
            status="not-done",
            code=coded("73761001", "Colonoscopy"),
            statusReason={"text": "Patient refused"},
            **own,
        ),
    ]


_CONDITION = {"reference": "Condition/c"}
