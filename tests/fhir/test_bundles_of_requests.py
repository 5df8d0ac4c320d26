"""Batches and transactions, the parts of a patient's everything, and a record that is being loaded."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirService, Overlay, Store, WriteMode, Writer
from tests.fhir.test_server import BASE, everything_next
from tests.fhir.test_writing import VITAL


def bundle(kind: str, *entries: Any) -> str:
    return json.dumps({"resourceType": "Bundle", "type": kind, "entry": list(entries)})


def post(resource: dict[str, Any], full_url: str = "") -> dict[str, Any]:
    named = {"fullUrl": full_url} if full_url else {}
    return {
        **named,
        "resource": resource,
        "request": {"method": "POST", "url": resource["resourceType"]},
    }


def put(resource: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource": resource,
        "request": {"method": "PUT", "url": f"{resource['resourceType']}/{resource['id']}"},
    }


def get(url: str) -> dict[str, Any]:
    return {"request": {"method": "GET", "url": url}}


def test_a_batch_of_reads_is_answered_entry_by_entry_even_read_only(ward_store: Store) -> None:
    sent = bundle("batch", get("Patient/p1"), get("Observation?patient=p2"), get("Patient/absent"))
    reply = FhirService(ward_store, BASE).post("", sent)
    answers = reply.json()["entry"]
    assert reply.json()["type"] == "batch-response"
    assert [entry["response"]["status"] for entry in answers] == ["200", "200", "404"]
    assert answers[0]["resource"]["id"] == "p1"
    assert answers[1]["resource"]["total"] == 1
    assert (
        FhirService(ward_store, BASE).post("", bundle("batch", put({**VITAL, "id": "v1"}))).status
        == 403
    )


def test_a_transaction_stores_all_and_its_entries_may_refer_to_each_other(
    ward_store: Store, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY, log))
        patient = {"resourceType": "Patient", "name": [{"family": "Newcomer"}]}
        vital = {**VITAL, "subject": {"reference": "urn:uuid:1"}}
        sent = bundle(
            "transaction", get("Patient?family=Newcomer"), post(vital), post(patient, "urn:uuid:1")
        )
        reply = service.post("", sent, who="tester")
        found, told, newcomer = reply.json()["entry"]
        new_id = newcomer["response"]["location"].split("/")[1]
        assert [entry["response"]["status"] for entry in (found, told, newcomer)] == [
            "200",
            "201",
            "201",
        ]
        assert found["resource"]["entry"][0]["resource"]["id"] == new_id, (
            "reads come after the writes"
        )
        assert service.get(f"Observation?patient={new_id}").json()["total"] == 1
    assert [(each.method, each.status, each.who) for each in log.entries()] == [
        ("POST", 201, "tester")
    ] * 2


def test_a_transaction_with_one_bad_entry_stores_nothing(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        taken = put({"resourceType": "Patient", "id": "p1"})
        reply = service.post("", bundle("transaction", put({**VITAL, "id": "v1"}), taken))
        told = [each["diagnostics"] for each in reply.json()["issue"]]
        assert reply.status == 409
        assert told[0] == "Nothing was stored."
        assert told[1].startswith("Entry 2:")
        assert overlay.added() == []
        assert service.post("", bundle("transaction", put({**VITAL, "id": "v1"}))).status == 200
        assert service.get("Observation/v1").status == 200


@pytest.mark.parametrize(
    ("question", "expected"),
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
def test_everything_of_a_patient_can_be_narrowed_and_every_page_stays_narrow(
    ward_store: Store, question: str, expected: set[str]
) -> None:
    found = everything_next(
        FhirService(ward_store, BASE), f"Patient/p1/$everything?_count=2&{question}"
    )
    assert set(found) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("wrong", ["start=soon", "_count=many", "_type=Observatoin"])
def test_what_everything_cannot_read_is_refused(ward_store: Store, wrong: str) -> None:
    assert FhirService(ward_store, BASE).get(f"Patient/p1/$everything?{wrong}").status == 400


def test_a_record_that_is_being_loaded_asks_for_patience(
    ward_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.fhir.index.schema.LOCK_TIMEOUT", 0.01)
    other = sqlite3.connect(ward_store.path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    reply = FhirService(Store(ward_store.path, ward_store.profile), BASE).get("Patient/p1")
    other.execute("ROLLBACK")
    other.close()
    assert reply.status == 503
    assert "Ask again later" in reply.body
