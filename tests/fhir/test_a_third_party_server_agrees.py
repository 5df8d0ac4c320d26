"""What both can, a real server of somebody else finds as we do: sekmet-fhir on loopback, over HTTP, dates in UTC."""

import random
from typing import Any

import pytest

from archqa.fhir import FhirClient, Store
from tests.fhir.invented import build_store, codeable_concept, encounter, observation, patient
from tests.fhir.third_party import fill, sekmet, sekmet_command

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        sekmet_command() is None,
        reason="sekmet-fhir is not here; tests/fhir/third_party.py says how",
    ),
]


def a_clinic() -> list[dict[str, Any]]:
    """Patients with results at random times in several zones."""
    chance = random.Random(7)
    found: list[dict[str, Any]] = [
        patient(f"p{at}", chance.choice(["Stone", "Stoner", "Miller"])) for at in range(8)
    ]
    found += [
        encounter(
            f"e{at}", f"p{at}", f"2130-0{at + 1}-01T08:00:00Z", f"2130-0{at + 1}-05T08:00:00Z"
        )
        for at in range(8)
    ]
    for at in range(400):
        of, zone = chance.randrange(8), chance.choice(["Z", "-05:00", "+05:30"])
        when = f"2130-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T{chance.randint(0, 23):02}:30:00{zone}"
        code = chance.choice(
            [
                codeable_concept("GLU", "Glucose"),
                codeable_concept("MG", "Magnesium"),
                codeable_concept("HR", system="http://other"),
            ]
        )
        more = {"encounter": {"reference": f"Encounter/e{of}"}} if chance.random() < 0.7 else {}
        value = {"value": chance.randint(1, 200), "unit": "mg/dL"}
        found.append(observation(f"o{at}", f"p{of}", code, when, valueQuantity=value, **more))
    return found


SEARCHES = [
    "Observation?patient=p1",
    "Observation?patient=Patient/p1&code=GLU",
    "Observation?code=http://other|HR",
    "Observation?code=GLU,MG&patient=p2",
    "Observation?code:not=GLU&patient=p2",
    "Observation?date=2130-03",
    "Observation?date=ge2130-03-01&date=lt2130-05-01",
    "Observation?date=gt2130-06-15T12:00:00Z&code=MG",
    "Observation?date=le2130-02-01T00:00:00%2B05:30",
    "Observation?patient=p3&date=eb2130-06-01",
    "Observation?encounter=e4&value-quantity=gt100",
    "Observation?value-quantity=le20&patient=p5",
    "Observation?encounter:missing=true&patient=p6",
    "Observation?category=laboratory&patient=p0&status=final",
    "Observation?patient.family=miller&code=HR",
    "Patient?family=ston",
    "Patient?family:exact=Stone",
    "Patient?birthdate=1932",
    "Patient?_id=p1,p3,absent",
    "Patient?_has:Observation:patient:code=HR",
    "Patient?identifier=http://example.org/mrn|MRN-p4",
    "Encounter?date=2130-03",
    "Encounter?class=IMP&patient=p2",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("third")
    with (
        sekmet(folder) as base,
        FhirClient(base) as far,
        build_store(folder / "ours", a_clinic(), "hapi") as near,
    ):
        fill(base, a_clinic())
        yield near, far


@pytest.mark.parametrize("query", SEARCHES)
def test_it_finds_the_same(both: tuple[Store, FhirClient], query: str) -> None:
    near, far = both
    ids = [resource["id"] for resource in near.search_all(query)]
    assert ids
    assert sorted(resource["id"] for resource in far.search_all(f"{query}&_count=200")) == sorted(
        ids
    )


@pytest.mark.parametrize("key", ["date", "-date"])
def test_it_sorts_the_same(both: tuple[Store, FhirClient], key: str) -> None:
    near, far = both
    query = f"Observation?patient=p1&_sort={key}&_count=200"
    times = [[each["effectiveDateTime"] for each in record.search_all(query)] for record in both]
    assert times[0] == times[1]
    assert near.search(query).total == far.search(query).total
