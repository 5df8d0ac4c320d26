"""Writing: only in a mode that allows it, always checked, and every attempt is logged."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import AuditLog, FhirError, Overlay, Store, WriteMode, Writer
from tests.fhir.writes import MEDICATION_ORDER, REFERRAL, VITAL_SIGN


def post(record: Store | Overlay, mode: WriteMode, body: Any) -> Any:
    return Writer(record, mode).post(body["resourceType"], json.dumps(body))


def test_a_record_is_read_only_unless_a_mode_is_chosen(ward_store: Store) -> None:
    written = Writer(ward_store).post("Observation", json.dumps(VITAL_SIGN))
    assert (written.status, written.accepted, written.stored) == (403, False, None)


@pytest.mark.parametrize(
    "body",
    [VITAL_SIGN, MEDICATION_ORDER, REFERRAL],
    ids=lambda body: body["resourceType"],
)
def test_a_good_write_passes_in_every_mode_and_is_stored_in_one(
    ward_store: Store, body: dict[str, Any]
) -> None:
    counts = ward_store.counts()
    for mode in (WriteMode.RECORD, WriteMode.VALIDATE):
        result = post(ward_store, mode, body)
        assert result.status == 200
        assert result.findings == ()
        assert result.stored is None
    with Overlay.over(ward_store) as overlay:
        result = post(overlay, WriteMode.APPLY, body)
        assert result.status == 201
        resource_type = body["resourceType"]
        new_id = result.stored["id"]
        assert result.location == f"{resource_type}/{new_id}/_history/1"
        assert overlay.get(resource_type, new_id) == result.stored
    assert ward_store.counts() == counts
    assert ward_store.search(
        body["resourceType"],
        {"subject": "p1", "status": body["status"], "_lastUpdated": "ge2025"},
    ).total in {0, 2, 5}


def changed(body: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        name: value for name, value in {**body, **members}.items() if value is not ...
    }


FAULTS = [
    (changed(VITAL_SIGN, status="done"), "status"),
    (changed(VITAL_SIGN, status=...), "status"),
    (changed(VITAL_SIGN, valueString=...), "value[x]"),
    (changed(VITAL_SIGN, subject={"reference": "Patient/absent"}), "subject.reference"),
    (changed(VITAL_SIGN, subject={"reference": "Location/w1"}), "subject.reference"),
    (changed(VITAL_SIGN, effectiveDateTime="2023-11-13"), "effectiveDateTime"),
    (changed(VITAL_SIGN, effectiveDateTime="2023-11-13T10:15:00"), "effectiveDateTime"),
    (changed(VITAL_SIGN, effectiveDateTime="now"), "effectiveDateTime"),
    (changed(VITAL_SIGN, category={"coding": []}), "category"),
    (changed(VITAL_SIGN, code="BP"), "code"),
    (changed(VITAL_SIGN, code={"coding": [{"code": "BP"}]}), "code.coding[0]"),
    (changed(MEDICATION_ORDER, medicationCodeableConcept=...), "medication[x]"),
    (changed(MEDICATION_ORDER, intent="wish"), "intent"),
    (
        changed(MEDICATION_ORDER, dosageInstruction=[{"route": "IV"}]),
        "dosageInstruction[0].route",
    ),
    (changed(MEDICATION_ORDER, dosageInstruction={"text": "x"}), "dosageInstruction"),
    (
        changed(
            MEDICATION_ORDER,
            dosageInstruction=[{"doseAndRate": [{"doseQuantity": {"value": "2"}}]}],
        ),
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
    assert refused.status == 422
    (finding,) = refused.findings
    assert finding.path == path
    assert finding.level == "error"
    recorded = post(ward_store, WriteMode.RECORD, body)
    assert recorded.status == 200
    (finding,) = recorded.findings
    assert finding.level == "warn"
    with Overlay.over(ward_store) as overlay:
        assert post(overlay, WriteMode.APPLY, body).status == 422
        assert overlay.added() == []


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "NaN",
        '"\\ud800"',
        "[" * 100_000,
        '{"resourceType": "Patient"}',
    ],
)
def test_a_body_that_is_no_such_resource_is_refused_with_findings(
    ward_store: Store, body: str
) -> None:
    written = Writer(ward_store, WriteMode.VALIDATE).post("Observation", body)
    assert written.status in {400, 422}
    assert written.findings


def test_a_type_or_a_record_that_cannot_be_written_is_refused(
    ward_store: Store,
) -> None:
    written = post(ward_store, WriteMode.VALIDATE, {"resourceType": "Patient"})
    assert "cannot be written" in written.findings[0].message
    with pytest.raises(FhirError, match="added to"):
        Writer(ward_store, WriteMode.APPLY)


def test_overlays_of_one_store_do_not_share_their_additions(ward_store: Store) -> None:
    query = "Observation?patient=p1"
    with Overlay.over(ward_store) as overlay, Overlay.over(ward_store) as empty_overlay:
        overlay.create(VITAL_SIGN)
        assert overlay.search(query).total == 6
        assert empty_overlay.search(query).total == 5
        assert ward_store.search(query).total == 5


def test_every_search_finds_what_an_overlay_adds_until_it_is_reset(
    ward_store: Store,
) -> None:
    with Overlay.over(ward_store) as overlay:
        stored = overlay.create(VITAL_SIGN)
        assert overlay.search("Observation?patient=p1").total == 6
        vital_signs = "Observation?patient=p1&category=vital-signs&date=2023-11-13"
        assert overlay.search(vital_signs).resources == [stored]
        sorted_page = overlay.search("Observation?patient=p1&_sort=date")
        assert sorted_page.resources[0] == stored
        assert (
            overlay.search(
                "Patient?_has:Observation:patient:category=vital-signs"
            ).total
            == 1
        )
        assert overlay.counts("p1")["Observation"] == 6
        with pytest.raises(FhirError, match="already") as caught:
            overlay.put(json.dumps(stored), stored)
        assert caught.value.status == 409
        overlay.reset()
        assert overlay.search("Observation?patient=p1").total == 5
        assert overlay.added() == []
        overlay.create(VITAL_SIGN)
        assert len(overlay.added()) == 1


def test_every_attempt_is_in_the_audit_log(ward_store: Store, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "logs" / "audit.jsonl")
    writer = Writer(ward_store, WriteMode.VALIDATE, log)
    writer.post(
        "Observation",
        json.dumps(VITAL_SIGN),
        url="http://x/fhir/Observation",
        who="agent",
        evidence=["Observation/o1"],
    )
    writer.post("Observation", "{")
    Writer(ward_store, WriteMode.READ_ONLY, log).post(
        "Observation", json.dumps(VITAL_SIGN)
    )
    good, bad, refused = log.entries()
    assert good.who == "agent"
    assert good.url == "http://x/fhir/Observation"
    assert good.payload == VITAL_SIGN
    assert good.evidence == ("Observation/o1",)
    assert (bad.status, bad.payload) == (400, "{")
    assert (refused.status, refused.mode) == (403, "read-only")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_findings_are_an_operation_outcome(ward_store: Store) -> None:
    issue = post(
        ward_store, WriteMode.VALIDATE, changed(VITAL_SIGN, status="done")
    ).outcome()["issue"][0]
    assert issue["severity"] == "error"
    assert issue["diagnostics"].startswith("status: must be one of registered")
