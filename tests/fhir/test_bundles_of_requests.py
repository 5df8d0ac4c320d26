"""Batches and transactions, parts of `$everything`, and a record that is being loaded."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirService, Overlay, Store, WriteMode, Writer
from tests.fhir.serving import BASE, ids_on_all_pages
from tests.fhir.writes import MEDICATION_ORDER, REFERRAL, VITAL_SIGN


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
    order = {**REFERRAL, "status": "draft"}
    vital_sign = {**VITAL_SIGN, "basedOn": [{"reference": "urn:uuid:1"}]}
    requests = [
        get("ServiceRequest?status=draft"),
        post(vital_sign),
        post(order, "urn:uuid:1"),
    ]
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY, log))
        reply = service.post("", bundle("transaction", *requests), who="tester")
        searchset, new_vital_sign, new_order = reply.json()["entry"]
        assert searchset["response"]["status"] == "200"
        assert new_vital_sign["response"]["status"] == "201"
        assert new_order["response"]["status"] == "201"
        order_id = new_order["response"]["location"].split("/")[1]
        (match,) = searchset["resource"]["entry"]
        assert match["resource"]["id"] == order_id, "reads come after the writes"
        found = service.get(f"Observation?based-on=ServiceRequest/{order_id}").json()
        assert found["total"] == 1
    entries = list(log.entries())
    assert len(entries) == 2
    for entry in entries:
        assert (entry.method, entry.status, entry.who) == ("POST", 201, "tester")


def test_a_transaction_with_one_bad_entry_stores_nothing(
    ward_store: Store, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY, log))
        new = put({**VITAL_SIGN, "id": "v1"})
        existing = put({**VITAL_SIGN, "id": "o1"})
        reply = service.post("", bundle("transaction", new, existing))
        assert reply.status == 409
        summary, detail = reply.json()["issue"]
        assert summary["diagnostics"] == "Nothing was stored."
        assert detail["diagnostics"].startswith("Entry 2:")
        assert overlay.added() == []
        assert [entry.status for entry in log.entries()] == [409, 409]
        undone, refused = (entry.findings[-1]["message"] for entry in log.entries())
        assert "undone" in undone
        assert "id already" in refused
        assert service.post("", bundle("transaction", new)).status == 200
        assert service.get("Observation/v1").status == 200


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in MEDICATION_ORDER.items() if key != name}


NOBODY = {"subject": {"reference": "Patient/nobody"}}
REFUSED: dict[str, dict[str, Any]] = {
    "an order for nobody": {**MEDICATION_ORDER, **NOBODY},
    "a referral for nobody": {**REFERRAL, **NOBODY},
    "a result of nobody": {**VITAL_SIGN, **NOBODY},
    "an order without a subject": without("subject"),
    "an order without a dose": without("dosageInstruction"),
    "a status of no value set": {**MEDICATION_ORDER, "status": "maybe"},
    "a date without a zone": {**MEDICATION_ORDER, "authoredOn": "2023-11-13"},
    "a code that is a text": {**REFERRAL, "code": "x-ray"},
    "a note that is a text": {**REFERRAL, "note": "urgent"},
    "a status that is a list": {**VITAL_SIGN, "status": ["final"]},
    "a new patient": {"resourceType": "Patient"},
    "a condition": {"resourceType": "Condition", "subject": {"reference": "Patient/p1"}},
    "an audit event": {"resourceType": "AuditEvent"},
    "a Bundle": {"resourceType": "Bundle", "type": "collection"},
}  # fmt: skip


@pytest.mark.parametrize("resource", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("method", [post, put])
@pytest.mark.parametrize("others", [0, 150])
def test_an_entry_is_refused_as_a_single_write_is(
    ward_store: Store,
    tmp_path: Path,
    resource: dict[str, Any],
    method: Any,
    others: int,
) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY, log))
        alone = service.post(resource["resourceType"], json.dumps(resource))
        assert alone.status == 422
        refused = method({**resource, "id": "new"})
        good = [post(VITAL_SIGN)] * others
        reply = service.post("", bundle("transaction", *good, refused))
        assert reply.status == 422
        texts = [issue["diagnostics"] for issue in reply.json()["issue"]]
        number = others + 1
        expected = [
            f"Entry {number}: {issue['diagnostics']}" for issue in alone.json()["issue"]
        ]
        assert texts == ["Nothing was stored.", *expected]
        assert overlay.added() == []
        in_batch = service.post("", bundle("batch", *good, refused)).json()["entry"]
        response = in_batch[-1]["response"]
        assert response["status"] == "422"
        assert response["outcome"]["issue"] == alone.json()["issue"]
        assert len(overlay.added()) == others
    statuses = [entry.status for entry in log.entries()]
    assert statuses == [422] * (others + 2) + [201] * others + [422]


def test_a_patient_of_the_same_transaction_is_not_written(ward_store: Store) -> None:
    patient = {"resourceType": "Patient", "name": [{"family": "Newcomer"}]}
    order = {**MEDICATION_ORDER, "subject": {"reference": "urn:uuid:1"}}
    with Overlay.over(ward_store) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        entries = [post(patient, "urn:uuid:1"), post(order)]
        reply = service.post("", bundle("transaction", *entries))
        assert reply.status == 422
        assert overlay.added() == []
        writable = set()
        (rest,) = service.get("metadata").json()["rest"]
        for declared in rest["resource"]:
            if {"code": "create"} in declared["interaction"]:
                writable.add(declared["type"])
        assert writable == {"Observation", "MedicationRequest", "ServiceRequest"}


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
