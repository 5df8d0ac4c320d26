"""Invented resources in the shapes of real ones, and records made of them."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from archqa.fhir import Store

Resource = dict[str, Any]

LABS = "http://example.org/labs"
ITEMS = "http://example.org/items"
CATEGORY = "http://terminology.hl7.org/CodeSystem/observation-category"
NAME = "http://example.org/mimic-medication-name"


def codeable_concept(
    code: str, display: str | None = None, system: str = LABS, text: str | None = None
) -> Resource:
    coding = {
        "system": system,
        "code": code,
        **({"display": display} if display else {}),
    }
    return {"coding": [coding], **({"text": text} if text else {})}


def patient(
    name: str, family: str = "Stone", given: Iterable[str] = ("Ann",), **more: Any
) -> Resource:
    return {
        "resourceType": "Patient",
        "id": name,
        "identifier": [{"system": "http://example.org/mrn", "value": f"MRN-{name}"}],
        "name": [{"family": family, "given": list(given)}],
        "gender": "female",
        "birthDate": "1932-12-29",
        **more,
    }


def observation(
    name: str,
    of: str,
    code: Resource | None = None,
    when: str | None = None,
    **more: Any,
) -> Resource:
    return {
        "resourceType": "Observation",
        "id": name,
        "status": "final",
        "category": [
            {
                "coding": [
                    {"system": CATEGORY, "code": "laboratory", "display": "Laboratory"}
                ]
            }
        ],
        "code": code or codeable_concept("GLU", "Glucose"),
        "subject": {"reference": f"Patient/{of}"},
        **({"effectiveDateTime": when} if when else {}),
        **more,
    }


def encounter(
    name: str, of: str, start: str, end: str | None, kind: str = "hosp", **more: Any
) -> Resource:
    return {
        "resourceType": "Encounter",
        "id": name,
        "identifier": [
            {
                "system": f"http://example.org/identifier/encounter-{kind}",
                "value": f"E{name}",
            }
        ],
        "status": "finished" if end else "in-progress",
        "class": {"code": "IMP"},
        "subject": {"reference": f"Patient/{of}"},
        "period": {"start": start, **({"end": end} if end else {})},
        **more,
    }


def medication(name: str, called: str, ingredients: Iterable[str] = ()) -> Resource:
    items = [
        {"itemReference": {"reference": f"Medication/{ingredient}"}}
        for ingredient in ingredients
    ]
    identifier = (
        [{"system": NAME, "value": called}]
        if called
        else [{"system": "http://example.org/mix", "value": name}]
    )
    return {
        "resourceType": "Medication",
        "id": name,
        "identifier": identifier,
        **({"ingredient": items} if items else {}),
    }


def medication_request(
    name: str, of: str, drug: str, when: str = "2130-01-02T09:00:00-05:00", **more: Any
) -> Resource:
    return {
        "resourceType": "MedicationRequest",
        "id": name,
        "status": "active",
        "intent": "order",
        "medicationReference": {"reference": f"Medication/{drug}"},
        "subject": {"reference": f"Patient/{of}"},
        "authoredOn": when,
        **more,
    }


def location(name: str, called: str) -> Resource:
    return {"resourceType": "Location", "id": name, "status": "active", "name": called}


def write_ndjson(path: Path, resources: Iterable[Resource]) -> Path:
    text = "".join(
        json.dumps(resource, ensure_ascii=False) + "\n" for resource in resources
    )
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def build_store(
    folder: Path, resources: Iterable[Resource], profile: str = "archqa"
) -> Store:
    """A record that holds exactly these."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store.open(folder / "record.db", profile, create=True)
    store.load([write_ndjson(folder / "resources.ndjson", resources)], strict=True)
    return store


def ward_resources() -> list[Resource]:
    """Two patients with visits, an ICU stay, results, orders of a drug and of a mix, and wards."""
    return [
        *ward_people_and_places(),
        *ward_visits(),
        *ward_observations(),
        *ward_orders_and_diagnoses(),
    ]


def ward_people_and_places() -> list[Resource]:
    """Two patients and three wards."""
    return [
        patient("p1", "Stone", ["Ann", "Mary"]),
        patient(
            "p2",
            "Müller",
            ["Jürgen"],
            gender="male",
            birthDate="1950-01-01",
            deceasedDateTime="2131-02-03",
        ),
        location("w1", "Medical Intensive Care Unit (MICU)"),
        location("w2", "Surgery"),
        location("w3", "Nobody's ward"),
    ]


def ward_visits() -> list[Resource]:
    """Hospital visits and an ICU stay."""
    return [
        encounter(
            "h1",
            "p1",
            "2130-01-01T08:00:00-05:00",
            "2130-01-09T12:00:00-05:00",
            location=[
                {
                    "location": {"reference": "Location/w2"},
                    "period": {"start": "2130-01-01T08:00:00-05:00"},
                }
            ],
        ),
        encounter(
            "i1",
            "p1",
            "2130-01-03T08:00:00-05:00",
            "2130-01-04T12:00:00-05:00",
            "icu",
            partOf={"reference": "Encounter/h1"},
            location=[{"location": {"reference": "Location/w1"}}],
        ),
        encounter("h2", "p1", "2131-07-01T08:00:00-04:00", None),
        encounter("h3", "p2", "2130-05-01T08:00:00-04:00", "2130-05-02T08:00:00-04:00"),
    ]


def ward_observations() -> list[Resource]:
    """Laboratory results, a heart rate and a blood culture."""
    return [
        observation(
            "o1",
            "p1",
            codeable_concept("GLU", "Glucose"),
            "2130-01-01T23:30:00-05:00",
            encounter={"reference": "Encounter/h1"},
            valueQuantity={"value": 5.4, "unit": "mmol/L", "code": "mmol/L"},
        ),
        observation(
            "o2",
            "p1",
            codeable_concept("GLU", "Glucose"),
            "2130-01-02T06:00:00-05:00",
            encounter={"reference": "Encounter/h1"},
            valueQuantity={"value": 7.10, "unit": "mmol/L"},
        ),
        observation(
            "o3",
            "p1",
            codeable_concept("HR", "Heart Rate", ITEMS),
            "2130-01-03T10:00:00-05:00",
            encounter={"reference": "Encounter/i1"},
            category=[codeable_concept("Routine Vital Signs", system=ITEMS)],
            valueQuantity={"value": 88, "unit": "bpm"},
        ),
        observation(
            "o4",
            "p2",
            codeable_concept("GLU", "Glucose"),
            "2130-05-01T10:00:00-04:00",
            valueQuantity={"value": 4.9, "unit": "mmol/L"},
        ),
        observation(
            "o5",
            "p1",
            codeable_concept("BC", "BLOOD CULTURE"),
            "2130-01-03T09:00:00-05:00",
            hasMember=[{"reference": "Observation/o6"}],
            specimen={"reference": "Specimen/s1"},
            valueString="GROWTH",
        ),
        observation(
            "o6",
            "p1",
            codeable_concept("ORG", "STAPH AUREUS"),
            "2130-01-03T09:00:00-05:00",
            derivedFrom=[{"reference": "Observation/o5"}],
        ),
    ]


def ward_orders_and_diagnoses() -> list[Resource]:
    """A specimen, drugs, a mix, orders and a diagnosis."""
    return [
        {
            "resourceType": "Specimen",
            "id": "s1",
            "type": codeable_concept("BLD", "BLOOD CULTURE"),
            "subject": {"reference": "Patient/p1"},
            "collection": {"collectedDateTime": "2130-01-03T08:55:00-05:00"},
        },
        medication("m1", "Insulin"),
        medication("m2", "0.9% Sodium Chloride"),
        medication("m3", "", ["m1", "m2"]),
        medication("m4", "Heparin"),
        medication_request("r1", "p1", "m3"),
        medication_request("r2", "p1", "m4", "2130-01-05T09:00:00-05:00"),
        medication_request(
            "r3",
            "p2",
            "m4",
            dosageInstruction=[{"timing": {"event": ["2130-05-01T10:00:00-04:00"]}}],
        ),
        {
            "resourceType": "Condition",
            "id": "c1",
            "subject": {"reference": "Patient/p1"},
            "encounter": {"reference": "Encounter/h1"},
            "code": codeable_concept("4280", "Congestive heart failure"),
        },
    ]


def numbered_observations(count: int, of: str = "p1", **more: Any) -> list[Resource]:
    """Observations of one patient: o0, o1 and so on."""
    return [observation(f"o{number}", of, **more) for number in range(count)]


def ids_of(resources: Iterable[Resource]) -> list[str]:
    """The ids of resources, in order."""
    return [resource["id"] for resource in resources]
