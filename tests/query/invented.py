"""Invented patients in the shapes of MIMIC-IV on FHIR, small and full of edge cases: ties, open visits, lost starts."""

import random
from typing import Any

from tests.fhir.invented import Resource, codeable_concept, location, medication, patient

SYSTEM = "http://mimic.mit.edu/fhir/mimic/CodeSystem/"
DAYS = (
    *(
        "2130-03-01",
        "2130-12-31",
        "2131-01-01",
        "2131-03-02",
        "2131-03-03",
        "2131-10-31",
        "2131-11-30",
    ),
    *("2131-12-01", "2131-12-30", "2131-12-31", "2132-01-01", "2132-02-29"),
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
    """One random patient `p`, beside a second one who must never be seen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0
        self.hospital: list[str] = []
        self.icu: list[str] = []
        self.resources: list[Resource] = []

    def of(self, name: str, visits: int) -> None:
        """All resources of one patient."""
        pick = self.random
        self.hospital, self.icu = [], []
        self._add(
            patient(
                name,
                gender=pick.choice(["male", "female"]),
                maritalStatus=codeable_concept("M", system=SYSTEM),
            )
        )
        for _ in range(visits):
            self._visit(name)
        for codes, kind in (
            (LABS, "d-labitems"),
            (VITALS, "chartevents-d-items"),
            (OUTPUTS, "d-items"),
        ):
            for _ in range(pick.randint(0, 30)):
                self._measured(name, codes, kind)
        for _ in range(pick.randint(0, 6)):
            self._test(name)
        for _ in range(pick.randint(0, 12)):
            self._order(name)
        for _ in range(pick.randint(0, 5)):
            self._coded(name)

    def _add(self, resource: Resource) -> str:
        self.resources.append(resource)
        return str(resource["id"])

    def _id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def time(self) -> str:
        zone = self.random.choice(["-05:00", "-04:00"])
        return f"{self.random.choice(DAYS)}T{self.random.choice(CLOCKS)}{zone}"

    def _period(self) -> Resource:
        start, end = sorted([self.time(), self.time()])
        return {"start": start} if self.random.random() < 0.2 else {"start": start, "end": end}

    def _visit(self, of: str) -> None:
        pick = self.random
        own = self._id("h")
        places = [
            {
                "location": {"reference": f"Location/{pick.choice(list(WARDS))}"},
                "period": self._period(),
            }
        ]
        source = codeable_concept(pick.choice(SOURCES), system=SYSTEM)
        self.hospital.append(
            self._add(
                _encounter(own, of, "hosp", self._period(), source, places * pick.randint(0, 1))
            )
        )
        for _ in range(pick.randint(0, 2)):
            stay = _encounter(self._id("i"), of, "icu", self._period(), None, [])
            self.icu.append(self._add({**stay, "partOf": {"reference": f"Encounter/{own}"}}))

    def _measured(self, of: str, codes: dict[str, str], kind: str) -> None:
        pick = self.random
        code = pick.choice(list(codes))
        where = self.hospital if kind == "d-labitems" else self.icu
        more: dict[str, Any] = {}
        if where and (kind != "d-labitems" or pick.random() < 0.8):
            more["encounter"] = {"reference": f"Encounter/{pick.choice(where)}"}
        amount: Resource = {"value": pick.choice([1, 2.5, 7, 100]), "unit": "mg"}
        values: list[Resource] = [{"valueQuantity": amount}] * 6
        if kind == "d-labitems":
            values += [{"valueString": "NEG"}, {"valueQuantity": {**amount, "comparator": "<"}}]
        if kind == "d-items":
            values += [{"valueDateTime": self.time()}]
        self._observe(
            of,
            "o",
            codeable_concept(code, codes[code], f"{SYSTEM}mimic-{kind}"),
            **more,
            **pick.choice(values),
        )

    def _observe(self, of: str, prefix: str, code: Resource, **more: Any) -> str:
        found = {
            "resourceType": "Observation",
            "id": self._id(prefix),
            "status": "final",
            "code": code,
        }
        when = {"effectiveDateTime": self.time()}
        return self._add({**found, "subject": {"reference": f"Patient/{of}"}, **when, **more})

    def _test(self, of: str) -> None:
        pick = self.random
        specimen = self._add(
            {
                "resourceType": "Specimen",
                "id": self._id("s"),
                "type": codeable_concept(
                    "1", pick.choice(SPECIMENS), f"{SYSTEM}mimic-spec-type-desc"
                ),
                "subject": {"reference": f"Patient/{of}"},
            }
        )
        organisms = []
        for _ in range(pick.choice([0, 1, 1, 2])):
            below = [
                self._micro(
                    of,
                    "antibiotic",
                    ANTIBIOTICS,
                    valueCodeableConcept=codeable_concept(pick.choice("RS"), None, "x"),
                )
            ]
            organisms.append(
                self._micro(of, "organism", ORGANISMS, hasMember=_refs(below * pick.randint(0, 1)))
            )
        more: dict[str, Any] = (
            {"hasMember": _refs(organisms)} if organisms else {"valueString": "NO GROWTH."}
        )
        if self.hospital and pick.random() < 0.7:
            more["encounter"] = {"reference": f"Encounter/{pick.choice(self.hospital)}"}
        self._micro(of, "test", TESTS, specimen={"reference": f"Specimen/{specimen}"}, **more)

    def _micro(self, of: str, kind: str, codes: dict[str, str], **more: Any) -> str:
        code = self.random.choice(list(codes))
        return self._observe(
            of,
            "u",
            codeable_concept(code, codes[code], f"{SYSTEM}mimic-microbiology-{kind}"),
            **more,
        )

    def _order(self, of: str) -> None:
        pick = self.random
        start = {} if pick.random() < 0.2 else {"validityPeriod": {"start": self.time()}}
        dose = {"value": pick.choice([1, 0.5, 400]), "unit": "mg"}
        rates = [{"doseAndRate": [{"doseQuantity": dose}]}, {}]
        order: Resource = {
            "resourceType": "MedicationRequest",
            "id": self._id("r"),
            "status": "completed",
            "intent": "order",
            "subject": {"reference": f"Patient/{of}"},
            "authoredOn": self.time(),
            "medicationReference": {"reference": f"Medication/{pick.choice([*DRUGS, *MIXES])}"},
            "dispenseRequest": start,
            "dosageInstruction": [
                {"route": codeable_concept(pick.choice(ROUTES), None, SYSTEM), **pick.choice(rates)}
            ],
        }
        if self.hospital:
            order["encounter"] = {"reference": f"Encounter/{pick.choice(self.hospital)}"}
        self._add(order)

    def _coded(self, of: str) -> None:
        if not self.hospital:
            return
        pick = self.random
        subject = {"reference": f"Patient/{of}"}
        visit = {"reference": f"Encounter/{pick.choice(self.hospital)}"}
        code = pick.choice(list(DIAGNOSES))
        common = {"subject": subject, "encounter": visit}
        codes = codeable_concept(code, DIAGNOSES[code], f"{SYSTEM}mimic-diagnosis-icd9")
        self._add({"resourceType": "Condition", "id": self._id("c"), "code": codes, **common})
        code, icu = pick.choice(list(PROCEDURES)), pick.random() < 0.3
        codes = codeable_concept(
            code, PROCEDURES[code], f"{SYSTEM}{'mimic-d-items' if icu else 'mimic-procedure-icd9'}"
        )
        done = (
            {"performedPeriod": {"start": self.time()}}
            if icu
            else {"performedDateTime": self.time()}
        )
        self._add(
            {
                "resourceType": "Procedure",
                "id": self._id("q"),
                "status": "completed",
                "code": codes,
                **common,
                **done,
            }
        )


def random_record(seed: int) -> list[Resource]:
    """The resources of a random patient `p` with up to three visits, of a second one, and what both refer to."""
    made = RandomRecord(seed)
    made.of("p", made.random.randint(0, 3))
    made.of("other", 2)
    made.resources += [location(name, called) for name, called in WARDS.items()]
    made.resources += [_drug(name, called) for name, called in DRUGS.items()]
    made.resources += [medication(name, "", parts) for name, parts in MIXES.items()]
    return made.resources


def _drug(name: str, called: str) -> Resource:
    found = medication(name, called)
    return {**found, "code": codeable_concept(f"000{name}", None, f"{SYSTEM}mimic-medication-ndc")}


def _encounter(
    name: str, of: str, kind: str, period: Resource, source: Resource | None, places: list[Resource]
) -> Resource:
    return {
        "resourceType": "Encounter",
        "id": name,
        "identifier": [
            {
                "system": f"http://mimic.mit.edu/fhir/mimic/identifier/encounter-{kind}",
                "value": name,
            }
        ],
        "status": "finished",
        "class": {"code": "EMER", "display": "emergency"},
        "subject": {"reference": f"Patient/{of}"},
        "period": period,
        **({"hospitalization": {"admitSource": source}} if source else {}),
        **({"location": places} if places else {}),
    }


def _refs(names: list[str]) -> list[Resource]:
    return [{"reference": f"Observation/{name}"} for name in names]
