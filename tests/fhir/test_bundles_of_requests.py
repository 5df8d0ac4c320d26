"""Batches and transactions, parts of `$everything`, and a record that is being loaded."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirService, Overlay, Store, WriteMode, Writer
from tests.fhir.serving import BASE, ids_on_all_pages
from tests.fhir.writes import VITAL_SIGN


def bundle(bundle_type: str, *entries: Any) -> str:
    content = {"resourceType": "Bundle", "type": bundle_type, "entry": list(entries)}
    return json.dumps(content)


def post(resource: dict[str, Any], full_url: str = "") -> dict[str, Any]:
    entry = {
        "resource": resource,
        "request": {"method": "POST", "url": resource["resourceType"]},
    }
    if full_url:
        entry["fullUrl"] = full_url
    return entry


def put(resource: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource": resource,
        "request": {
            "method": "PUT",
            "url": f"{resource['resourceType']}/{resource['id']}",
        },
    }


def get(url: str) -> dict[str, Any]:
    return {"request": {"method": "GET", "url": url}}


def test_a_batch_of_reads_is_answered_entry_by_entry_even_read_only(
    ward_store: Store,
) -> None:
    reads = [get("Patient/p1"), get("Observation?patient=p2"), get("Patient/absent")]
    service = FhirService(ward_store, BASE)
    reply = service.post("", bundle("batch", *reads)).json()
    assert reply["type"] == "batch-response"
    patient, searchset, absent = reply["entry"]
    assert patient["response"]["status"] == "200"
    assert patient["resource"]["id"] == "p1"
    assert searchset["response"]["status"] == "200"
    assert searchset["resource"]["total"] == 1
    assert absent["response"]["status"] == "404"


def test_a_read_only_server_refuses_a_batch_with_a_write(ward_store: Store) -> None:
    service = FhirService(ward_store, BASE)
    write = put({**VITAL_SIGN, "id": "v1"})
    assert service.post("", bundle("batch", write)).status == 403


def test_a_transaction_stores_all_and_its_entries_may_refer_to_each_other(
    ward_store: Store, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    patient = {"resourceType": "Patient", "name": [{"family": "Newcomer"}]}
    vital_sign = {**VITAL_SIGN, "subject": {"reference": "urn:uuid:1"}}
    requests = [
        get("Patient?family=Newcomer"),
        post(vital_sign),
        post(patient, "urn:uuid:1"),
    ]
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY, log))
        reply = service.post("", bundle("transaction", *requests), who="tester")
        searchset, new_vital_sign, new_patient = reply.json()["entry"]
        assert searchset["response"]["status"] == "200"
        assert new_vital_sign["response"]["status"] == "201"
        assert new_patient["response"]["status"] == "201"
        patient_id = new_patient["response"]["location"].split("/")[1]
        (match,) = searchset["resource"]["entry"]
        assert match["resource"]["id"] == patient_id, "reads come after the writes"
        assert service.get(f"Observation?patient={patient_id}").json()["total"] == 1
    entries = list(log.entries())
    assert len(entries) == 2
    for entry in entries:
        assert (entry.method, entry.status, entry.who) == ("POST", 201, "tester")


def test_a_transaction_with_one_bad_entry_stores_nothing(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        new = put({**VITAL_SIGN, "id": "v1"})
        existing = put({"resourceType": "Patient", "id": "p1"})
        reply = service.post("", bundle("transaction", new, existing))
        assert reply.status == 409
        summary, detail = reply.json()["issue"]
        assert summary["diagnostics"] == "Nothing was stored."
        assert detail["diagnostics"].startswith("Entry 2:")
        assert overlay.added() == []
        assert service.post("", bundle("transaction", new)).status == 200
        assert service.get("Observation/v1").status == 200


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            "_type=Observation,Encounter&start=2130-01-03&end=2130-01-03",
            {"h1", "i1", "o3", "o5", "o6"},
        ),
        ("_type=Observation&end=2130-01-02", {"o1", "o2"}),
        ("_type=Patient&start=2200", {"p1"}),
        ("_type=Location&start=2200", {"w1", "w2"}),
        ("_since=2999-01-01", set()),
    ],
)
def test_the_limits_of_everything_hold_on_every_page(
    ward_store: Store, limits: str, expected: set[str]
) -> None:
    service = FhirService(ward_store, BASE)
    ids = ids_on_all_pages(service, f"Patient/p1/$everything?_count=2&{limits}")
    assert set(ids) == expected
    assert len(ids) == len(expected)


@pytest.mark.parametrize(
    "parameter", ["start=soon", "_count=many", "_type=Observatoin"]
)
def test_everything_refuses_an_invalid_parameter(
    ward_store: Store, parameter: str
) -> None:
    reply = FhirService(ward_store, BASE).get(f"Patient/p1/$everything?{parameter}")
    assert reply.status == 400


def test_a_record_that_is_being_loaded_is_temporarily_unavailable(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.fhir.index.schema.LOCK_TIMEOUT", 0.01)
    writer = sqlite3.connect(ward_store.path, isolation_level=None)
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN EXCLUSIVE")
    store = Store(ward_store.path, ward_store.profile)
    reply = FhirService(store, BASE).get("Patient/p1")
    writer.execute("ROLLBACK")
    writer.close()
    assert reply.status == 503
    assert "Ask again later" in reply.body
