"""The compartment of an encounter and its `$everything`, as a brute-force search finds them."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirService, Store
from tests.fhir.brute_force_operations import everything_of_encounter
from tests.fhir.invented import build_store
from tests.fhir.serving import BASE, ids_on_all_pages

PROFILES = ["archqa", "gcp", "hapi"]
FORM = {"content-type": "application/x-www-form-urlencoded"}

ELEMENTS = {
    "Encounter": ["subject", "partOf", "location.location", "diagnosis.condition"],
    "Observation": ["subject", "encounter", "performer", "hasMember"],
    "Condition": ["subject", "encounter", "recorder"],
    "MedicationAdministration": [
        "subject",
        "context",
        "medicationReference",
        "performer.actor",
    ],
    "MedicationDispense": ["subject", "context", "medicationReference"],
    "DocumentReference": ["subject", "context.encounter", "custodian"],
    "Flag": ["subject", "encounter"],
    "Medication": ["ingredient.itemReference", "manufacturer"],
    "Location": ["partOf", "managingOrganization"],
    "Organization": ["partOf"],
    "Patient": ["managingOrganization"],
    "Practitioner": ["extension.valueReference"],
}
"""The types of the records, and elements of theirs that refer to others."""

LISTS = {"location", "diagnosis", "performer", "hasMember", "ingredient", "extension"}
NAMES = [f"{resource_type}/{number}" for resource_type in ELEMENTS for number in "12"]


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Two resources of each type that refer to any others."""
    resources = []
    for name in NAMES:
        resource_type = name.partition("/")[0]
        resource: dict[str, Any] = {
            "resourceType": resource_type,
            "id": name.replace("/", "-"),
        }
        for path in ELEMENTS[resource_type]:
            target = draw(st.none() | st.sampled_from(NAMES))
            if target is not None:
                target_type, _, target_number = target.partition("/")
                put(resource, path, f"{target_type}/{target_type}-{target_number}")
        resources.append(resource)
    return resources


def put(resource: dict[str, Any], path: str, reference: str) -> None:
    """Put a reference at a path such as `location.location`."""
    value: Any = {"reference": reference}
    for step in reversed(path.split(".")):
        value = {step: [value] if step in LISTS else value}
    for name, member in value.items():
        resource[name] = member


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(resources=records())
def test_everything_of_an_encounter_is_what_a_brute_force_search_finds(
    resources: list[dict[str, Any]],
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        build_store(Path(folder), resources) as store,
    ):
        service = FhirService(store, BASE)
        for encounter in ("Encounter-1", "Encounter-2"):
            ids = ids_on_all_pages(
                service, f"Encounter/{encounter}/$everything?_count=3"
            )
            names = {f"{name.partition('-')[0]}/{name}" for name in ids}
            assert len(ids) == len(names)
            assert names == everything_of_encounter(resources, encounter)


@pytest.mark.parametrize("profile", PROFILES)
def test_everything_comes_by_get_form_and_parameters(
    ward_store: Store, profile: str
) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    url = "Encounter/i1/$everything"
    parameters = [
        {"name": "_type", "valueCode": name} for name in ("Location", "Patient")
    ]
    body = json.dumps({"resourceType": "Parameters", "parameter": parameters})
    for reply in (
        service.get(f"{url}?_type=Location,Patient"),
        service.get(f"{url}?_type=Location&_type=Patient"),
        service.handle("POST", url, "_type=Location&_type=Patient", FORM),
        service.post(url, body),
    ):
        bundle = reply.json()
        assert bundle["total"] == 2
        assert {entry["resource"]["id"] for entry in bundle["entry"]} == {"w1", "p1"}


def test_the_patient_of_an_encounter_brings_no_other_care(ward_store: Store) -> None:
    ids = ids_on_all_pages(FhirService(ward_store, BASE), "Encounter/h1/$everything")
    assert sorted(ids) == ["c1", "h1", "o1", "o2", "p1", "w2"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_search_within_an_encounter_finds_its_compartment(
    ward_store: Store, profile: str
) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    assert ids_on_all_pages(service, "Encounter/h1/Observation?_count=1") == [
        "o1",
        "o2",
    ]
    assert ids_on_all_pages(
        service, "Encounter/h1/Observation?date=ge2130-01-02T06:00:00-05:00"
    ) == ["o2"]
    assert ids_on_all_pages(service, "Encounter/h1/Condition") == ["c1"]
    assert ids_on_all_pages(service, "Encounter/h1/Encounter") == ["h1"]
    assert ids_on_all_pages(service, "Encounter/absent/Observation") == []
    form = service.handle("POST", "Encounter/h1/Observation/_search", "code=GLU", FORM)
    assert form.json()["total"] == 2


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("url", "status", "message"),
    [
        ("Encounter/h1/Patient", 404, "not in the compartment"),
        ("Encounter/h1/Flag", 404, "not in the compartment"),
        ("Encounter/h1/Observatio", 404, "Did you mean"),
        ("Encounter/h1/*", 404, "name a type"),
        ("Patient/p1/*", 404, "name a type"),
        ("Patient/p1/Location", 404, "not in the compartment"),
        ("Practitioner/x/Observation", 404, "not supported"),
        ("Device/x/Observation", 404, "not supported"),
        ("RelatedPerson/x/Observation", 404, "not supported"),
        ("Encounter/absent/$everything", 404, "no such encounter"),
        ("Encounter/h1/$everything?start=2130", 400, "has no parameter start"),
        ("Encounter/h1/$everything?colour=red", 400, "has no parameter colour"),
        ("Encounter/h1/$everything?_type=Foo", 400, "_type names a type"),
        ("Patient/$everything", 404, "not supported here"),
        ("Location/w1/$everything", 404, "not supported here"),
    ],
)
def test_what_is_no_compartment_or_operation_is_refused(
    ward_store: Store, profile: str, url: str, status: int, message: str
) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    reply = service.handle("GET", url, headers={"prefer": "handling=strict"})
    assert reply.status == status
    assert message in reply.body


def test_an_id_with_a_comma_is_one_id(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    for url in (
        "Patient/p1,p2/Observation",
        "Encounter/h1,i1/Observation",
        "Patient/p1,p2/Patient",
    ):
        assert service.get(url).json()["total"] == 0


def test_a_page_of_everything_may_hold_parts_or_a_count(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    for owner in ("Patient/p1", "Encounter/h1"):
        whole = service.get(f"{owner}/$everything").json()
        for count in ("_summary=count", "_count=0"):
            bundle = service.get(f"{owner}/$everything?{count}").json()
            assert bundle["total"] == whole["total"]
            assert "entry" not in bundle
            assert [link["relation"] for link in bundle["link"]] == ["self"]
        parts = service.get(f"{owner}/$everything?_elements=subject&_count=2").json()
        next_url = parts["link"][1]["url"]
        for entry in (*parts["entry"], *service.get(next_url).json()["entry"]):
            assert entry["resource"]["meta"]["tag"][-1]["code"] == "SUBSETTED"
            assert "valueQuantity" not in entry["resource"]
