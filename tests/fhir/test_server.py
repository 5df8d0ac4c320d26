"""The server's answers: pages, reads, errors, capabilities and writes."""

import json
import re
from pathlib import Path

import pytest

from archqa.fhir import (
    FhirService,
    Overlay,
    Store,
    WriteMode,
    Writer,
)
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.serving import BASE, ids_on_all_pages
from tests.fhir.writes import VITAL_SIGN


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
def test_links_lead_through_all_pages(ward_store: Store, profile: str) -> None:
    service = FhirService(ward_store.as_profile(profile), BASE)
    assert ids_on_all_pages(service, "Observation?patient=p1&_count=2") == [
        "o1",
        "o2",
        "o3",
        "o5",
        "o6",
    ]
    assert (
        len(ids_on_all_pages(service, "Patient/p1/$everything?_count=3"))
        == len(ward_resources()) - 5
    )


def test_a_searchset_has_the_shape_of_hapis(ward_store: Store) -> None:
    service = FhirService(ward_store.as_profile("hapi"), BASE)
    reply = service.get("Observation?patient=p1&_count=2&_format=json")
    bundle = reply.json()
    assert reply.headers["content-type"] == "application/fhir+json"
    assert list(bundle) == ["resourceType", "id", "meta", "type", "link", "entry"]
    next_url = bundle["link"][1]["url"]
    assert next_url.startswith(f"{BASE}?_getpages=")
    assert re.fullmatch(
        r"_getpages=[\w=-]+&_getpagesoffset=2&_count=2"
        r"&_format=json&_pretty=true&_bundletype=searchset",
        next_url.removeprefix(f"{BASE}?"),
    )
    assert bundle["entry"][0]["fullUrl"] == f"{BASE}/Observation/o1"
    assert bundle["entry"][0]["search"] == {"mode": "match"}
    empty = service.get("Observation?patient=p1&code=absent").json()
    assert empty["total"] == 0
    assert "entry" not in empty


def test_prefer_handling_strict_is_honoured(ward_store: Store) -> None:
    service = FhirService(ward_store.as_profile("gcp"), BASE)
    assert service.get("Observation?colour=red").status == 200
    assert (
        service.handle(
            "GET", "Observation?colour=red", headers={"prefer": "handling=strict"}
        ).status
        == 400
    )


def test_a_read_gives_the_text_and_errors_are_outcomes(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    assert service.get(f"{BASE}/Patient/p1").body == ward_store.text("Patient", "p1")
    assert service.get("Patient/p1&_format=json").status == 200
    for url, status in (
        ("Patient/absent", 404),
        ("Foo/1", 404),
        ("Observation?date=x", 400),
        ("", 400),
        ("?_getpages=x", 410),
    ):
        reply = service.get(url)
        assert reply.status == status
        assert reply.json()["resourceType"] == "OperationOutcome"
    assert service.handle("DELETE", "Patient/p1").status == 405


def test_a_search_may_be_posted_as_a_form(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    reply = service.handle("POST", "Observation/_search", "patient=p1&code=GLU")
    assert reply.json()["total"] == 2


def test_the_capability_statement_names_types_and_parameters(ward_store: Store) -> None:
    statement = FhirService(ward_store, BASE).get("metadata").json()
    assert statement["fhirVersion"] == "4.0.1"
    (rest,) = statement["rest"]
    resources = {resource["type"]: resource for resource in rest["resource"]}
    parameters = resources["Observation"]["searchParam"]
    assert {"name": "value-quantity", "type": "quantity"} in parameters


def test_writes_are_answered_by_their_mode(ward_store: Store) -> None:
    body = json.dumps(VITAL_SIGN)
    read_only = FhirService(ward_store, BASE)
    assert read_only.post("Observation", body).status == 403
    recording = FhirService(ward_store, BASE, Writer(ward_store, WriteMode.RECORD))
    assert recording.post("Observation", body).status == 200
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        reply = service.post("Observation", body)
        assert reply.status == 201
        new_id = reply.json()["id"]
        assert reply.headers["location"] == f"{BASE}/Observation/{new_id}/_history/1"
        assert (
            service.get("Observation?patient=p1&category=vital-signs").json()["total"]
            == 1
        )


def test_entries_of_a_batch_are_stored_independently(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        entries = [
            {
                "resource": {**VITAL_SIGN, "id": "v9"},
                "request": {"method": "PUT", "url": "Observation/v9"},
            },
            {"resource": 1},
        ]
        batch = {"resourceType": "Bundle", "type": "batch", "entry": entries}
        reply = service.post("", json.dumps(batch)).json()
        statuses = [entry["response"]["status"] for entry in reply["entry"]]
        assert statuses == ["201", "400"]
        assert service.get("Observation/v9").status == 200


def test_the_answer_about_a_damaged_record_does_not_show_its_path(
    tmp_path: Path,
) -> None:
    store = build_store(tmp_path, ward_resources())
    store.close()
    content = store.path.read_bytes()
    intact = content[: 8192 * 2]
    store.path.write_bytes(intact.ljust(len(content), b"\x5a"))
    reply = FhirService(store, BASE).get("Observation?patient=p1")
    assert reply.status == 500
    assert str(tmp_path) not in reply.body
