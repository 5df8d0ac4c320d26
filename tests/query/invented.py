"""Random patients in the shapes of MIMIC-IV on FHIR.

They are small and full of edge cases: simultaneous results, open visits, missing starts.
"""

import random
from typing import Any

from tests.fhir.invented import (
    Resource,
    codeable_concept,
    location,
    medication,
    patient,
)

SYSTEM = "http://mimic.mit.edu/fhir/mimic/CodeSystem/"
DAYS = (
    "2130-03-01",
    "2130-12-31",
    "2131-01-01",
    "2131-03-02",
    "2131-03-03",
    "2131-10-31",
    "2131-11-30",
    "2131-12-01",
    "2131-12-30",
    "2131-12-31",
    "2132-01-01",
    "2132-02-29",
)
CLOCKS = ("00:00:00", "00:00:01", "04:30:00", "12:00:00", "23:59:00", "23:59:59")
LABS = {
    "50001": "Glucose",
    "50002": "Glucose",
    "50003": "glucose ",
    "50004": "Glucose, Urine",
    "50005": "pH",
}
VITALS = {
    "220045": "Heart Rate",
    "220046": "Heart rate Alarm - High",
    "223762": "Temperature Celsius",
}
OUTPUTS = {"226559": "Foley", "226560": "Void"}
TESTS = {"90001": "URINE CULTURE", "90002": "MRSA SCREEN"}
SPECIMENS = ("URINE", "MRSA SCREEN")
ORGANISMS = {"80001": "YEAST", "80002": "STAPH AUREUS COAG +"}
ANTIBIOTICS = {"70001": "VANCOMYCIN", "70002": "OXACILLIN"}
DRUGS = {
    "m1": "Insulin",
    "m2": "insulin",
    "m3": "0.9% Sodium Chloride",
    "m4": "Heparin ",
    "m5": "Heparin",
}
MIXES = {"x1": ("m1", "m3"), "x2": ("m4", "m2", "m3")}
ROUTES = ("IV", "PO", "iv")
DIAGNOSES = {"4019": "Essential hypertension", "25000": "Diabetes"}
PROCEDURES = {"3893": "Venous catheterization", "966": "Enteral infusion"}
SOURCES = ("EMERGENCY ROOM", "PHYSICIAN REFERRAL", "PROCEDURE SITE")
WARDS = {"w1": "Trauma SICU (TSICU)", "w2": "Emergency Department", "w3": "Medicine"}


class RandomRecord:
    """Random resources, added patient by patient."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.resources: list[Resource] = []
        self._number = 0
        self._patient = ""
        self._hospital_visits: list[str] = []
        self._icu_stays: list[str] = []

    def add_patient(self, name: str, visit_count: int) -> None:
        """Add a patient with that many hospital visits, and everything else at random."""
        pick = self.random
        self._patient = name
        self._hospital_visits = []
        self._icu_stays = []
        gender = pick.choice(["male", "female"])
        marital_status = codeable_concept("M", system=SYSTEM)
        self._add(patient(name, gender=gender, maritalStatus=marital_status))
        for _ in range(visit_count):
            self._add_visit()
        for codes, system in (
            (LABS, "d-labitems"),
            (VITALS, "chartevents-d-items"),
            (OUTPUTS, "d-items"),
        ):
            for _ in range(pick.randint(0, 30)):
                self._add_measurement(codes, system)
        for _ in range(pick.randint(0, 6)):
            self._add_microbiology_test()
        for _ in range(pick.randint(0, 12)):
            self._add_order()
        for _ in range(pick.randint(0, 5)):
            if self._hospital_visits:
                self._add_diagnosis_and_procedure()

    @property
    def _subject(self) -> Resource:
        return {"reference": f"Patient/{self._patient}"}

    def _add(self, resource: Resource) -> str:
        self.resources.append(resource)
        return str(resource["id"])

    def _new_id(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _time(self) -> str:
        zone = self.random.choice(["-05:00", "-04:00"])
        day = self.random.choice(DAYS)
        clock = self.random.choice(CLOCKS)
        return f"{day}T{clock}{zone}"

    def _period(self) -> Resource:
        """A period; one in five has no end."""
        start, end = sorted([self._time(), self._time()])
        if self.random.random() < 0.2:
            return {"start": start}
        return {"start": start, "end": end}

    def _random_reference(self, encounters: list[str]) -> Resource:
        return {"reference": f"Encounter/{self.random.choice(encounters)}"}

    def _add_visit(self) -> None:
        """A hospital visit with at most two ICU stays."""
        pick = self.random
        visit_id = self._new_id("h")
        ward = {"reference": f"Location/{pick.choice(list(WARDS))}"}
        stay = {"location": ward, "period": self._period()}
        source = codeable_concept(pick.choice(SOURCES), system=SYSTEM)
        visit = self._encounter(visit_id, "hosp")
        visit["hospitalization"] = {"admitSource": source}
        if pick.random() < 0.5:
            visit["location"] = [stay]
        self._hospital_visits.append(self._add(visit))
        for _ in range(pick.randint(0, 2)):
            icu_stay = self._encounter(self._new_id("i"), "icu")
            icu_stay["partOf"] = {"reference": f"Encounter/{visit_id}"}
            self._icu_stays.append(self._add(icu_stay))

    def _encounter(self, encounter_id: str, kind: str) -> Resource:
        system = f"http://mimic.mit.edu/fhir/mimic/identifier/encounter-{kind}"
        return {
            "resourceType": "Encounter",
            "id": encounter_id,
            "identifier": [{"system": system, "value": encounter_id}],
            "status": "finished",
            "class": {"code": "EMER", "display": "emergency"},
            "subject": self._subject,
            "period": self._period(),
        }

    def _add_measurement(self, codes: dict[str, str], system: str) -> None:
        pick = self.random
        code = pick.choice(list(codes))
        quantity: Resource = {"value": pick.choice([1, 2.5, 7, 100]), "unit": "mg"}
        values: list[Resource] = [{"valueQuantity": quantity}] * 6
        if system == "d-labitems":
            values.append({"valueString": "NEG"})
            values.append({"valueQuantity": {**quantity, "comparator": "<"}})
        if system == "d-items":
            values.append({"valueDateTime": self._time()})
        fields = dict(pick.choice(values))
        if system == "d-labitems":
            if self._hospital_visits and pick.random() < 0.8:
                fields["encounter"] = self._random_reference(self._hospital_visits)
        elif self._icu_stays:
            fields["encounter"] = self._random_reference(self._icu_stays)
        concept = codeable_concept(code, codes[code], f"{SYSTEM}mimic-{system}")
        self._add_observation("o", concept, **fields)

    def _add_observation(self, prefix: str, code: Resource, **fields: Any) -> str:
        observation = {
            "resourceType": "Observation",
            "id": self._new_id(prefix),
            "status": "final",
            "code": code,
            "subject": self._subject,
            "effectiveDateTime": self._time(),
            **fields,
        }
        return self._add(observation)

    def _add_microbiology_test(self) -> None:
        """A test with at most two organisms, each with at most one susceptibility."""
        pick = self.random
        specimen_id = self._add_specimen()
        organisms = []
        for _ in range(pick.choice([0, 1, 1, 2])):
            susceptibilities = []
            if pick.random() < 0.5:
                susceptibilities.append(self._add_susceptibility())
            fields = {"hasMember": _references(susceptibilities)}
            organisms.append(self._add_microbiology("organism", ORGANISMS, **fields))
        test: Resource = {"specimen": {"reference": f"Specimen/{specimen_id}"}}
        if organisms:
            test["hasMember"] = _references(organisms)
        else:
            test["valueString"] = "NO GROWTH."
        if self._hospital_visits and pick.random() < 0.7:
            test["encounter"] = self._random_reference(self._hospital_visits)
        self._add_microbiology("test", TESTS, **test)

    def _add_specimen(self) -> str:
        name = self.random.choice(SPECIMENS)
        specimen = {
            "resourceType": "Specimen",
            "id": self._new_id("s"),
            "type": codeable_concept("1", name, f"{SYSTEM}mimic-spec-type-desc"),
            "subject": self._subject,
        }
        return self._add(specimen)

    def _add_susceptibility(self) -> str:
        result = codeable_concept(self.random.choice("RS"), None, "x")
        return self._add_microbiology(
            "antibiotic", ANTIBIOTICS, valueCodeableConcept=result
        )

    def _add_microbiology(self, kind: str, codes: dict[str, str], **fields: Any) -> str:
        code = self.random.choice(list(codes))
        concept = codeable_concept(
            code, codes[code], f"{SYSTEM}mimic-microbiology-{kind}"
        )
        return self._add_observation("u", concept, **fields)

    def _add_order(self) -> None:
        """A prescription; some have no start, and some no dose."""
        pick = self.random
        period: Resource = {}
        if pick.random() >= 0.2:
            period["validityPeriod"] = {"start": self._time()}
        dosage: Resource = {
            "route": codeable_concept(pick.choice(ROUTES), None, SYSTEM)
        }
        if pick.random() < 0.5:
            quantity = {"value": pick.choice([1, 0.5, 400]), "unit": "mg"}
            dosage["doseAndRate"] = [{"doseQuantity": quantity}]
        medication_id = pick.choice([*DRUGS, *MIXES])
        order: Resource = {
            "resourceType": "MedicationRequest",
            "id": self._new_id("r"),
            "status": "completed",
            "intent": "order",
            "subject": self._subject,
            "authoredOn": self._time(),
            "medicationReference": {"reference": f"Medication/{medication_id}"},
            "dispenseRequest": period,
            "dosageInstruction": [dosage],
        }
        if self._hospital_visits:
            order["encounter"] = self._random_reference(self._hospital_visits)
        self._add(order)

    def _add_diagnosis_and_procedure(self) -> None:
        """A diagnosis and a procedure of one visit; three of ten procedures are of the ICU."""
        pick = self.random
        visit = self._random_reference(self._hospital_visits)
        code = pick.choice(list(DIAGNOSES))
        condition = {
            "resourceType": "Condition",
            "id": self._new_id("c"),
            "code": codeable_concept(
                code, DIAGNOSES[code], f"{SYSTEM}mimic-diagnosis-icd9"
            ),
            "subject": self._subject,
            "encounter": visit,
        }
        self._add(condition)
        code = pick.choice(list(PROCEDURES))
        procedure: Resource = {
            "resourceType": "Procedure",
            "id": self._new_id("q"),
            "status": "completed",
            "subject": self._subject,
            "encounter": visit,
        }
        if pick.random() < 0.3:
            system = "mimic-d-items"
            procedure["performedPeriod"] = {"start": self._time()}
        else:
            system = "mimic-procedure-icd9"
            procedure["performedDateTime"] = self._time()
        procedure["code"] = codeable_concept(
            code, PROCEDURES[code], f"{SYSTEM}{system}"
        )
        self._add(procedure)


def random_record(seed: int) -> list[Resource]:
    """The resources of a random patient `p` with up to three visits.

    A second patient, `other`, must never be seen in answers about `p`. Both share the locations
    and the medications.
    """
    record = RandomRecord(seed)
    record.add_patient("p", record.random.randint(0, 3))
    record.add_patient("other", 2)
    resources = record.resources
    for location_id, name in WARDS.items():
        resources.append(location(location_id, name))
    for medication_id, name in DRUGS.items():
        resources.append(_drug(medication_id, name))
    for medication_id, ingredients in MIXES.items():
        resources.append(medication(medication_id, "", ingredients))
    return resources


def _drug(medication_id: str, name: str) -> Resource:
    code = codeable_concept(
        f"000{medication_id}", None, f"{SYSTEM}mimic-medication-ndc"
    )
    return {**medication(medication_id, name), "code": code}


def _references(observation_ids: list[str]) -> list[Resource]:
    return [
        {"reference": f"Observation/{observation_id}"}
        for observation_id in observation_ids
    ]
