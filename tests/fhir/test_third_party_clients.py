"""Libraries of others work on our server, and read what we write: fhirclient, fhirpy, fhir.resources.

They are of the group `dev`: `make test` installs them.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, Overlay, Store
from archqa.fhir.server.application import FhirApplication
from archqa.fhir.views.answer_bundle import (
    AnsweredLine,
    AnsweredQuestion,
    answer_bundle,
)
from archqa.fhir.write.writer import WriteMode, Writer
from tests.fhir.invented import (
    build_store,
    ids_of,
    numbered_observations,
    ward_resources,
)
from tests.fhir.third_party import free_port
from tests.fhir.writes import VITAL_SIGN

pytestmark = pytest.mark.heavy

PROFILES = ["archqa", "gcp", "hapi"]
COUNT = 260
"""Observations of one patient: several pages in every profile."""


@dataclass
class Served:
    """A server in mode apply on loopback, and what it serves."""

    base: str
    overlay: Overlay


@pytest.fixture(scope="module")
def large_ward(tmp_path_factory: pytest.TempPathFactory) -> Store:
    many = [
        {**resource, "id": f"many{number}"}
        for number, resource in enumerate(numbered_observations(COUNT, of="p2"))
    ]
    return build_store(tmp_path_factory.mktemp("clients"), [*ward_resources(), *many])


@pytest.fixture(params=PROFILES)
def served(request: pytest.FixtureRequest, large_ward: Store) -> Iterator[Served]:
    with served_as(large_ward, request.param) as server:
        yield server


@contextmanager
def served_as(store: Store, profile: str) -> Iterator[Served]:
    uvicorn = pytest.importorskip(
        "uvicorn", reason="the server needs uvicorn: archqa[server]"
    )
    port = free_port()
    base = f"http://127.0.0.1:{port}/fhir"
    overlay = Overlay.over(store.as_profile(profile))
    service = FhirService(overlay, base, Writer(overlay, WriteMode.APPLY))
    config = uvicorn.Config(
        FhirApplication(service), port=port, log_level="critical", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started and time.monotonic() < until:
            thread.join(0.01)
        yield Served(base, overlay)
    finally:
        server.should_exit = True
        thread.join(10)
        overlay.close()


# fhirclient (SMART on FHIR; models of R4)


@pytest.fixture
def smart(served: Served) -> Any:
    client = pytest.importorskip("fhirclient.client", reason="pip install fhirclient")
    settings = {"app_id": "archqa", "api_base": served.base}
    return client.FHIRClient(settings=settings).server


def models(*names: str) -> list[Any]:
    """Classes of fhirclient: that of `observation` is Observation."""
    classes = []
    for name in names:
        module = pytest.importorskip(
            f"fhirclient.models.{name}", reason="pip install fhirclient"
        )
        classes.append(getattr(module, name.title()))
    return classes


def test_fhirclient_reads_the_capability_statement(smart: Any) -> None:
    statement = smart.capabilityStatement
    assert statement.fhirVersion == "4.0.1"
    assert "Observation" in [resource.type for resource in statement.rest[0].resource]


def test_fhirclient_reads_searches_and_follows_every_page(smart: Any) -> None:
    observation, patient = models("observation", "patient")
    assert patient.read("p2", smart).name[0].family == "Müller"
    found = patient.where({"family": "stone", "given": "ann"}).perform_resources(smart)
    assert [resource.id for resource in found] == ["p1"]
    search = observation.where({"patient": "p2", "_count": "50"})
    ids = [resource.id for resource in search.perform_resources_iter(smart)]
    assert len(ids) == len(set(ids)) == COUNT + 1


def test_fhirclient_creates_and_finds_what_it_created(
    smart: Any, served: Served
) -> None:
    (observation,) = models("observation")
    created = observation(VITAL_SIGN).create(smart)
    assert created["id"]
    read = observation.read(created["id"], smart)
    assert read.valueString == "118/77 mmHg"
    assert ids_of(served.overlay.added()) == [created["id"]]


def test_fhirclient_reports_our_errors_by_their_status(smart: Any) -> None:
    requests = pytest.importorskip("requests")
    not_found = pytest.importorskip("fhirclient.server").FHIRNotFoundException
    observation, patient = models("observation", "patient")
    with pytest.raises(not_found):
        patient.read("absent", smart)
    with pytest.raises(requests.HTTPError) as caught:
        observation.where({"date": "yesterday"}).perform(smart)
    outcome = caught.value.response.json()
    assert caught.value.response.status_code == 400
    assert outcome["resourceType"] == "OperationOutcome"
    assert "date" in outcome["issue"][0]["diagnostics"]


# fhirpy (asynchronous and synchronous; no models)


@pytest.fixture
def fhirpy_client(served: Served) -> Any:
    fhirpy = pytest.importorskip("fhirpy", reason="pip install fhirpy")
    return fhirpy.SyncFHIRClient(served.base)


def test_fhirpy_reads_searches_and_follows_every_page(fhirpy_client: Any) -> None:
    person = fhirpy_client.reference("Patient", "p2").to_resource()
    assert person["name"][0]["family"] == "Müller"
    found = fhirpy_client.resources("Patient").search(name="stone").fetch()
    assert [resource.id for resource in found] == ["p1"]
    ids = [
        resource.id
        for resource in fhirpy_client.resources("Observation")
        .search(patient="p2")
        .limit(50)
    ]
    assert len(ids) == len(set(ids)) == COUNT + 1
    drug = fhirpy_client.resources("MedicationRequest").search(_id="r2").get()
    assert drug["medicationReference"].to_resource().id == "m4"


def test_fhirpy_sorts_includes_and_takes_the_first(fhirpy_client: Any) -> None:
    observations = fhirpy_client.resources("Observation").search(
        patient="p1", code="GLU"
    )
    assert observations.sort("-date").first().id == "o2"
    visits = (
        fhirpy_client.resources("Encounter")
        .search(_id="h1")
        .include("Encounter", "patient")
    )
    modes = {entry.search.mode for entry in visits.fetch_raw().entry}
    assert modes == {"match", "include"}


def test_fhirpy_creates_and_finds_what_it_created(
    fhirpy_client: Any, served: Served
) -> None:
    resource = fhirpy_client.resource("Observation", **VITAL_SIGN)
    resource.save()
    assert resource.id
    found = fhirpy_client.resources("Observation").search(_id=resource.id).get()
    assert found["valueString"] == "118/77 mmHg"
    assert ids_of(served.overlay.added()) == [resource.id]


def test_fhirpy_reports_our_errors_with_their_words(fhirpy_client: Any) -> None:
    errors = pytest.importorskip("fhirpy.base.exceptions")
    with pytest.raises(errors.ResourceNotFound, match="no Patient of that id"):
        fhirpy_client.reference("Patient", "absent").to_resource()
    with pytest.raises(errors.OperationOutcome) as caught:
        fhirpy_client.resources("Observation").search(date="yesterday").fetch()
    assert "date" in caught.value.resource["issue"][0]["diagnostics"]
    resource = fhirpy_client.resource("Observation", **{**VITAL_SIGN, "status": "done"})
    with pytest.raises(errors.OperationOutcome) as caught:
        resource.save()
    assert "status" in caught.value.resource["issue"][0]["diagnostics"]


async def test_fhirpy_follows_pages_asynchronously(served: Served) -> None:
    fhirpy = pytest.importorskip("fhirpy", reason="pip install fhirpy")
    client = fhirpy.AsyncFHIRClient(served.base)
    search = client.resources("Observation").search(patient="p2").limit(50)
    ids = [resource.id async for resource in search]
    assert len(set(ids)) == COUNT + 1


def test_fhirpy_reads_a_page_of_a_million(large_ward: Store) -> None:
    fhirpy = pytest.importorskip("fhirpy", reason="pip install fhirpy")
    with served_as(large_ward, "hapi") as server:
        search = fhirpy.SyncFHIRClient(server.base).resources("Observation")
        found = search.search(patient="p2").limit(1_000_000).fetch()
    assert len(found) == COUNT + 1


# fhir.resources (models of R4B, which has R4's resources)


def assert_valid(resource: dict[str, Any]) -> None:
    """A model of R4B takes the resource, and gives the same back."""
    r4b = pytest.importorskip("fhir.resources.R4B", reason="pip install fhir.resources")
    model = r4b.get_fhir_model_class(resource["resourceType"])
    written = json.loads(model.model_validate(resource).model_dump_json())
    assert written["resourceType"] == resource["resourceType"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "url",
    [
        "metadata",
        "Observation?patient=p2",
        "Observation?patient=p1&_include=Observation:encounter&_revinclude=Observation:has-member",
        "Observation?code=absent",
        "Patient?_summary=count",
        "Patient?_elements=birthDate",
        "Patient?_summary=true",
        "Patient/p1/$everything?_count=5",
        "Observation?code=glu",
        "Observation?date=yesterday&_sort=nothing",
        "Patient/absent",
        "Patient/p1/$nothing",
        "Nothing?a=b",
    ],
)
def test_what_the_server_answers_is_valid(
    large_ward: Store, profile: str, url: str
) -> None:
    service = FhirService(large_ward.as_profile(profile), "http://localhost:8080/fhir")
    assert_valid(service.get(url).json())


@pytest.mark.parametrize("mode", list(WriteMode))
@pytest.mark.parametrize(
    "body", [VITAL_SIGN, {**VITAL_SIGN, "status": "done"}, [], "{"]
)
def test_answers_to_writes_are_valid(
    large_ward: Store, mode: WriteMode, body: Any
) -> None:
    with Overlay.over(large_ward) as overlay:
        service = FhirService(overlay, writer=Writer(overlay, mode))
        text = body if body == "{" else json.dumps(body)
        reply = service.post("Observation", text).json()
        assert_valid(reply)


@pytest.mark.parametrize("bundle_type", ["batch", "transaction"])
def test_answers_to_bundles_are_valid(large_ward: Store, bundle_type: str) -> None:
    entries = [
        {"request": {"method": "GET", "url": "Patient/p1"}},
        {"request": {"method": "POST", "url": "Observation"}, "resource": VITAL_SIGN},
        {"request": {"method": "GET", "url": "Observation?patient=p1"}},
    ]
    if bundle_type == "batch":
        entries.append({"request": {"method": "GET", "url": "Patient/absent"}})
    bundle = {"resourceType": "Bundle", "type": bundle_type, "entry": entries}
    with Overlay.over(large_ward) as overlay:
        service = FhirService(overlay, writer=Writer(overlay, WriteMode.APPLY))
        assert_valid(service.post("", json.dumps(bundle)).json())


def test_an_answer_with_its_provenance_is_valid() -> None:
    at = datetime(2026, 11, 26, tzinfo=UTC)
    lines = (
        AnsweredLine("Glucose was 5.4 mmol/L.", ("Observation/o1", "Observation/o2#4")),
        AnsweredLine("No further visits.", ()),
    )
    asked = AnsweredQuestion(
        "What was the glucose?", "answered", lines, at, "1.0", patient="p1", model="m"
    )
    refused = AnsweredQuestion(
        "And?", "refused", (), at, "1.0", message="It names no test."
    )
    bundle = answer_bundle([asked, refused], at)
    assert_valid(bundle)
    kinds = {entry["resource"]["resourceType"] for entry in bundle["entry"]}
    assert {"QuestionnaireResponse", "Provenance", "Device"} <= kinds


def test_what_tests_take_for_resources_is_valid(tmp_path: Path) -> None:
    for resource in (*ward_resources(), VITAL_SIGN):
        assert_valid(resource)
