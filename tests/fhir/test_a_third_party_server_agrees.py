"""A third-party server finds the same: sekmet-fhir on loopback, over HTTP, dates in UTC."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from archqa.fhir import FhirClient, Store
from tests.fhir.invented import (
    build_store,
    codeable_concept,
    encounter,
    ids_of,
    observation,
    patient,
)
from tests.fhir.third_party import fill, sekmet, sekmet_command

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        sekmet_command() is None,
        reason="sekmet-fhir is not here; tests/fhir/third_party.py says how",
    ),
]


def random_clinic() -> list[dict[str, Any]]:
    """Patients with results at random times in several zones."""
    chance = random.Random(7)
    resources = []
    for number in range(8):
        family = chance.choice(["Stone", "Stoner", "Miller"])
        resources.append(patient(f"p{number}", family))
    for number in range(8):
        month = f"2130-0{number + 1}"
        start = f"{month}-01T08:00:00Z"
        end = f"{month}-05T08:00:00Z"
        resources.append(encounter(f"e{number}", f"p{number}", start, end))
    for number in range(400):
        resources.append(random_observation(f"o{number}", chance))
    return resources


def random_observation(name: str, chance: random.Random) -> dict[str, Any]:
    patient_number = chance.randrange(8)
    zone = chance.choice(["Z", "-05:00", "+05:30"])
    month = chance.randint(1, 12)
    day = chance.randint(1, 28)
    hour = chance.randint(0, 23)
    time = f"2130-{month:02}-{day:02}T{hour:02}:30:00{zone}"
    codes = [
        codeable_concept("GLU", "Glucose"),
        codeable_concept("MG", "Magnesium"),
        codeable_concept("HR", system="http://other"),
    ]
    resource = observation(name, f"p{patient_number}", chance.choice(codes), time)
    if chance.random() < 0.7:
        resource["encounter"] = {"reference": f"Encounter/e{patient_number}"}
    resource["valueQuantity"] = {"value": chance.randint(1, 200), "unit": "mg/dL"}
    return resource


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
def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Store, FhirClient]]:
    """The same record in our store and on the other server."""
    folder = tmp_path_factory.mktemp("third")
    resources = random_clinic()
    with (
        sekmet(folder) as base,
        FhirClient(base) as client,
        build_store(folder / "ours", resources, "hapi") as store,
    ):
        fill(base, resources)
        yield store, client


@pytest.mark.parametrize("query", SEARCHES)
def test_it_finds_the_same(servers: tuple[Store, FhirClient], query: str) -> None:
    store, client = servers
    ids = ids_of(store.search_all(query))
    assert ids
    assert sorted(ids_of(client.search_all(f"{query}&_count=200"))) == sorted(ids)


@pytest.mark.parametrize("key", ["date", "-date"])
def test_it_sorts_the_same(servers: tuple[Store, FhirClient], key: str) -> None:
    store, client = servers
    query = f"Observation?patient=p1&_sort={key}&_count=200"
    assert times(store, query) == times(client, query)
    assert store.search(query).total == client.search(query).total


def times(record: Store | FhirClient, query: str) -> list[str]:
    return [resource["effectiveDateTime"] for resource in record.search_all(query)]
