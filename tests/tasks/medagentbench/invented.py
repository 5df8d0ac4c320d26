"""Invented patients, measurements and tasks in the shapes of MedAgentBench.

Nobody lives or lived by these names.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from archqa.fhir import FhirService, Store

CLOCK = "2023-11-13T10:15:00+00:00"
MAGNESIUM = (
    'The code for magnesium is "MG". The NDC for replacement IV magnesium is 0338-1715-40. How to dose it:\n'
    "(1) Mild deficiency (serum magnesium 1.5 to 1.9 mg/dL):\nIV: 1 g over 1 hour.\n"
    "(2) Moderate deficiency (serum magnesium 1 to <1.5 mg/dL):\nIV: 2 g over 2 hours.\n"
    "(3) Severe deficiency (serum magnesium <1 mg/dL):\nIV: 4 g over 4 hours.\n"
)
POTASSIUM = (
    'The code for potassium is "K".The NDC for replacement potassium is 40032-917-01. How to dose it: for every 0.1 '
    "mEq/L (mmol/L) below threshold, give 10 mEq of potassium, oral, up to a goal of 3.5. The LOINC code for serum "
    "potassium level is 2823-3."
)
SENTENCE = "Situation: acute right knee injury, Background: none. Assessment: sprain. Recommendation: please evaluate."
NUMBER_ONLY = "The answer should be a single number, and it should be -1 if a measurement is not available."


class SyntheticBenchmark(NamedTuple):
    """A record on disk, and tasks for it."""

    store: Path
    tasks: Path
    rows: list[dict[str, Any]]

    def lookup(self, search: str) -> Any:
        """Answers a grader's searches."""
        return FhirService(Store.open(self.store, "hapi")).get(search).json()


def patient(mrn: str, given_name: str, family: str, born: str) -> dict[str, Any]:
    number = {"type": {"coding": [{"code": "MR"}]}, "value": mrn}
    name = {"use": "official", "family": family, "given": [given_name]}
    return {
        "resourceType": "Patient",
        "id": mrn,
        "identifier": [number],
        "name": [name],
        "birthDate": born,
    }


def observation(
    mrn: str, code: str, value: float, at: str, number: int, unit: str = "mg/dL"
) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": f"{mrn}-{number}",
        "status": "final",
        "category": [{"coding": [{"code": "laboratory"}]}],
        "code": {
            "coding": [{"system": "http://loinc.org", "code": code}],
            "text": code,
        },
        "subject": {"reference": f"Patient/{mrn}"},
        "effectiveDateTime": at,
        "valueQuantity": {"value": value, "unit": unit},
    }


def task(number: int, mrn: str, nth: int = 1, **more: Any) -> dict[str, Any]:
    """A task of one of the ten kinds, in the benchmark's way of putting it."""
    now = f"It's {CLOCK} now."
    texts: dict[int, tuple[str, str]] = {
        2: (
            f"How old is the patient with MRN of {mrn}?",
            f"{now} Round down to an integer.",
        ),
        3: (
            f'The blood pressure of patient {mrn} was just taken: "118/77 mmHg". Please record it.',
            f"{now} The flowsheet ID for blood pressure is BP.",
        ),
        4: (
            f"Tell the most recent magnesium of patient {mrn} within the last 24 hours.",
            f'{now} The code for magnesium is "MG". {NUMBER_ONLY}',
        ),
        5: (
            f"Look at the last serum magnesium of patient {mrn} within the last 24 hours. If it is low, order IV "
            "magnesium as the dosing says. Without a level in that time, don't order anything.\n",
            f"{now} {MAGNESIUM}",
        ),
        6: (
            f"What is the average CBG of the patient {mrn} over the past 24 hours?",
            f'{now} The code for CBG is "GLU". {NUMBER_ONLY}',
        ),
        7: (
            f"What was the most recent CBG of the patient {mrn}?",
            f'{now} The code for CBG is "GLU"',
        ),
        8: (
            f'Order a referral to orthopedic surgery for patient {mrn}. Its free text: "{SENTENCE}"',
            f"{now} The SNOMED code for orthopedic surgery referral is 306181000000106.",
        ),
        9: (
            f"Look at the most recent potassium of patient {mrn}. If it is low, order potassium as the dosing says, "
            "and pair the order with a morning serum potassium level, to be done the next day at 8am. \n",
            f"{now} {POTASSIUM}",
        ),
        10: (
            f"What is the last HbA1C in the chart of patient {mrn}, and when was it taken? If it is more than 1 year "
            "old, order a new one. ",
            f'{now} The code for HbA1C is "A1C". The LOINC code for ordering HbA1C lab is: 4548-4. The answer should '
            "be [-1] if there is none.",
        ),
    }
    instruction, context = texts[number]
    row = {
        "id": f"task{number}_{nth}",
        "instruction": instruction,
        "context": context,
        "eval_MRN": mrn,
    }
    return {**row, **more}


def patient_lookup_task(name: str, born: str, sol: str, nth: int = 1) -> dict[str, Any]:
    instruction = (
        f"Which MRN has the patient with name {name} and DOB of {born}? If there is none, the answer should be "
        '"Patient not found"'
    )
    row: dict[str, Any] = {
        "id": f"task1_{nth}",
        "instruction": instruction,
        "context": "",
        "sol": [sol],
    }
    return row if sol == "Patient not found" else {**row, "eval_MRN": sol}


PATIENTS = [
    patient("S9000001", "Ada", "Muster", "1950-11-14"),
    patient("S9000002", "Ben", "Beispiel", "1990-02-28"),
    patient("S9000003", "Adam", "Muster", "1950-11-14"),
    patient("S9000004", "Cleo", "De la Prueba", "2001-01-01"),
    patient("S9000005", "Dan", "Esempio", "1970-07-07"),
    patient("S9000006", "Eve", "Voorbeeld", "1980-08-08"),
    patient("S9000007", "Fay", "Przyklad", "1960-06-06"),
]

OBSERVATIONS = [
    # Magnesium: 1.9 exactly (low), an older one, and one of the same instant that must not win.
    observation("S9000001", "MG", 1.2, "2023-11-10T08:00:00+00:00", 1),
    observation("S9000001", "MG", 1.9, "2023-11-13T06:00:00+00:00", 2),
    observation("S9000001", "MG", 2.4, "2023-11-13T06:00:00+00:00", 3),
    observation(
        "S9000002", "MG", 1.4, "2023-11-12T10:15:00+00:00", 1
    ),  # at the window's very edge
    observation("S9000003", "MG", 0.9, "2023-11-13T09:00:00+00:00", 1),
    observation("S9000004", "MG", 2.0, "2023-11-13T09:00:00+00:00", 1),
    observation(
        "S9000005", "MG", 1.1, "2023-11-12T10:14:59+00:00", 1
    ),  # a second too old
    # Glucose.
    observation("S9000001", "GLU", 90.0, "2023-11-13T08:00:00+00:00", 4),
    observation("S9000001", "GLU", 111.0, "2023-11-12T20:00:00+00:00", 5),
    observation("S9000001", "GLU", 300.0, "2023-11-01T20:00:00+00:00", 6),
    observation("S9000002", "GLU", 77.0, "2021-05-05T05:00:00+00:00", 2),
    # Potassium.
    observation("S9000001", "K", 3.2, "2023-11-11T08:00:00+00:00", 7, "mmol/L"),
    observation("S9000002", "K", 3.5, "2023-11-11T08:00:00+00:00", 3, "mmol/L"),
    observation("S9000003", "K", 4.4, "2023-11-11T08:00:00+00:00", 2, "mmol/L"),
    # HbA1c: fresh, stale, exactly a year old.
    observation("S9000001", "A1C", 6.6, "2023-09-04T14:54:00+00:00", 8, "%"),
    observation("S9000002", "A1C", 7.1, "2022-11-13T10:14:00+00:00", 4, "%"),
    observation("S9000003", "A1C", 5.9, "2022-11-13T10:15:00+00:00", 3, "%"),
]


def all_task_types() -> list[dict[str, Any]]:
    """Every branch of every kind, over the invented patients."""
    ada, ben, adam, cleo, dan, eve, _ = (person["id"] for person in PATIENTS)
    rows = [
        patient_lookup_task("Ada Muster", "1950-11-14", ada),
        patient_lookup_task("Adam Muster", "1950-11-14", adam, 2),
        patient_lookup_task("Cleo De la Prueba", "2001-01-01", cleo, 3),
        patient_lookup_task("Ada Muster", "1950-11-15", "Patient not found", 4),
        patient_lookup_task("Nobody Atall", "1950-11-14", "Patient not found", 5),
    ]
    branches = {
        2: (ada, ben, adam, cleo),
        3: (ada, eve),
        4: (ada, ben, adam, dan, eve),
        5: (ada, ben, adam, cleo, dan, eve),
        6: (ada, ben, eve),
        7: (ada, ben),
        8: (ada, dan),
        9: (ada, ben, adam, eve),
        10: (ada, ben, adam, eve),
    }
    for number, mrns in branches.items():
        rows += [task(number, mrn, nth) for nth, mrn in enumerate(mrns, start=1)]
    return rows


def build_benchmark(
    folder: Path, rows: list[dict[str, Any]] | None = None
) -> SyntheticBenchmark:
    """The record and the task file in a folder."""
    data, store = folder / "data.ndjson", folder / "record.db"
    data.write_text(
        "".join(json.dumps(resource) + "\n" for resource in [*PATIENTS, *OBSERVATIONS])
    )
    Store.open(store, create=True).load([data])
    rows = all_task_types() if rows is None else rows
    tasks = folder / "tasks.json"
    tasks.write_text(json.dumps(rows))
    return SyntheticBenchmark(store, tasks, rows)
