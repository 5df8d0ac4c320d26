"""Writing: nothing is written unless a mode says so, everything is checked, and every attempt is logged."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirError, Overlay, Store, WriteMode, Writer
from tests.fhir.invented import codeable_concept

VITAL: dict[str, Any] = {
    "resourceType": "Observation",
    "category": [
        {"coding": [{"system": "http://hl7.org/fhir/observation-category", "code": "vital-signs"}]}
    ],
    "code": {"text": "BP"},
    "effectiveDateTime": "2023-11-13T10:15:00+00:00",
    "status": "final",
    "valueString": "118/77 mmHg",
    "subject": {"reference": "Patient/p1"},
}
ORDER: dict[str, Any] = {
    "resourceType": "MedicationRequest",
    "medicationCodeableConcept": codeable_concept(
        "0338-1715-40", system="http://hl7.org/fhir/sid/ndc"
    ),
    "authoredOn": "2023-11-13T10:15:00Z",
    "dosageInstruction": [
        {"route": {"text": "IV"}, "doseAndRate": [{"doseQuantity": {"value": 2, "unit": "g"}}]},
    ],
    "status": "active",
    "intent": "order",
    "subject": {"reference": "Patient/p1"},
}
REFERRAL: dict[str, Any] = {
    "resourceType": "ServiceRequest",
    "code": codeable_concept("306181000000106", system="http://snomed.info/sct"),
    "authoredOn": "2023-11-13T10:15:00+00:00",
    "status": "active",
    "intent": "order",
    "priority": "stat",
    "subject": {"reference": "Patient/p1"},
    "note": [{"text": "Situation"}],
}


def post(record: Store | Overlay, mode: WriteMode, body: Any, kind: str = "") -> Any:
    return Writer(record, mode).post(kind or body["resourceType"], json.dumps(body))


def test_a_record_is_read_only_unless_a_mode_is_chosen(ward_store: Store) -> None:
    written = Writer(ward_store).post("Observation", json.dumps(VITAL))
    assert (written.status, written.accepted, written.stored) == (403, False, None)


@pytest.mark.parametrize("body", [VITAL, ORDER, REFERRAL], ids=lambda body: body["resourceType"])
def test_a_good_write_passes_in_every_mode_and_is_stored_in_one(
    ward_store: Store, body: dict[str, Any]
) -> None:
    for mode, status in ((WriteMode.RECORD, 200), (WriteMode.VALIDATE, 200)):
        written = post(ward_store, mode, body)
        assert (written.status, written.findings, written.stored) == (status, (), None)
    with Overlay.over(ward_store) as overlay:
        written = post(overlay, WriteMode.APPLY, body)
        assert written.status == 201
        assert written.location == f"{body['resourceType']}/{written.stored['id']}/_history/1"
        assert overlay.get(body["resourceType"], written.stored["id"]) == written.stored
    assert ward_store.search(
        body["resourceType"], {"subject": "p1", "status": body["status"], "_lastUpdated": "ge2025"}
    ).total in {0, 2, 5}


def changed(body: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {name: value for name, value in {**body, **members}.items() if value is not ...}


FAULTS = [
    (changed(VITAL, status="done"), "status"),
    (changed(VITAL, status=...), "status"),
    (changed(VITAL, valueString=...), "value[x]"),
    (changed(VITAL, subject={"reference": "Patient/absent"}), "subject.reference"),
    (changed(VITAL, subject={"reference": "Location/w1"}), "subject.reference"),
    (changed(VITAL, effectiveDateTime="2023-11-13"), "effectiveDateTime"),
    (changed(VITAL, effectiveDateTime="2023-11-13T10:15:00"), "effectiveDateTime"),
    (changed(VITAL, effectiveDateTime="now"), "effectiveDateTime"),
    (changed(VITAL, category={"coding": []}), "category"),
    (changed(VITAL, code="BP"), "code"),
    (changed(VITAL, code={"coding": [{"code": "BP"}]}), "code.coding[0]"),
    (changed(ORDER, medicationCodeableConcept=...), "medication[x]"),
    (changed(ORDER, intent="wish"), "intent"),
    (changed(ORDER, dosageInstruction=[{"route": "IV"}]), "dosageInstruction[0].route"),
    (changed(ORDER, dosageInstruction={"text": "x"}), "dosageInstruction"),
    (
        changed(ORDER, dosageInstruction=[{"doseAndRate": [{"doseQuantity": {"value": "2"}}]}]),
        "dosageInstruction[0].doseAndRate[0].doseQuantity.value",
    ),
    (changed(REFERRAL, priority="now"), "priority"),
    (changed(REFERRAL, note={"text": "x"}), "note"),
    (changed(REFERRAL, note=[{}]), "note"),
]


@pytest.mark.parametrize(("body", "path"), FAULTS)
def test_a_fault_is_an_error_where_it_counts_and_a_warning_in_mode_record(
    ward_store: Store, body: Any, path: str
) -> None:
    refused = post(ward_store, WriteMode.VALIDATE, body)
    assert (refused.status, [finding.path for finding in refused.findings]) == (422, [path])
    assert refused.findings[0].level == "error"
    recorded = post(ward_store, WriteMode.RECORD, body)
    assert (recorded.status, {finding.level for finding in recorded.findings}) == (200, {"warn"})
    with Overlay.over(ward_store) as overlay:
        assert post(overlay, WriteMode.APPLY, body).status == 422
        assert overlay.added() == []


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "null", "NaN", '"\\ud800"', "[" * 100_000, '{"resourceType": "Patient"}'],
)
def test_a_body_that_is_no_such_resource_is_refused_in_words(ward_store: Store, body: str) -> None:
    written = Writer(ward_store, WriteMode.VALIDATE).post("Observation", body)
    assert written.status in {400, 422}
    assert written.findings


def test_what_cannot_be_written_is_said(ward_store: Store) -> None:
    written = post(ward_store, WriteMode.VALIDATE, {"resourceType": "Patient"})
    assert "cannot be written" in written.findings[0].message
    with pytest.raises(FhirError, match="added to"):
        Writer(ward_store, WriteMode.APPLY)


def test_an_overlay_is_found_by_every_search_and_forgotten_by_a_reset(ward_store: Store) -> None:
    with Overlay.over(ward_store) as overlay, Overlay.over(ward_store) as other:
        stored = overlay.create(VITAL)
        assert overlay.search("Observation?patient=p1").total == 6
        assert overlay.search(
            "Observation?patient=p1&category=vital-signs&date=2023-11-13"
        ).resources == [stored]
        assert (
            overlay.search("Observation?patient=p1&_sort=date").resources[0]["id"] == stored["id"]
        )
        assert overlay.search("Patient?_has:Observation:patient:category=vital-signs").total == 1
        assert overlay.counts("p1")["Observation"] == 6
        assert (
            other.search("Observation?patient=p1").total
            == ward_store.search("Observation?patient=p1").total
            == 5
        )
        with pytest.raises(FhirError, match="already") as caught:
            overlay.put(json.dumps(stored), stored)
        assert caught.value.status == 409
        overlay.reset()
        assert overlay.search("Observation?patient=p1").total == 5
        assert overlay.added() == []
        overlay.create(VITAL)
        assert len(overlay.added()) == 1


def test_every_attempt_is_in_the_audit_log(ward_store: Store, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "logs" / "audit.jsonl")
    writer = Writer(ward_store, WriteMode.VALIDATE, log)
    writer.post(
        "Observation",
        json.dumps(VITAL),
        url="http://x/fhir/Observation",
        who="agent",
        evidence=["Observation/o1"],
    )
    writer.post("Observation", "{")
    Writer(ward_store, WriteMode.READ_ONLY, log).post("Observation", json.dumps(VITAL))
    good, bad, refused = log.entries()
    assert (good.who, good.url, good.payload, good.evidence) == (
        "agent",
        "http://x/fhir/Observation",
        VITAL,
        ("Observation/o1",),
    )
    assert (bad.status, bad.payload, refused.status, refused.mode) == (400, "{", 403, "read-only")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_findings_are_an_operation_outcome(ward_store: Store) -> None:
    issue = post(ward_store, WriteMode.VALIDATE, changed(VITAL, status="done")).outcome()["issue"][
        0
    ]
    assert issue["severity"] == "error"
    assert issue["diagnostics"].startswith("status: must be one of registered")
