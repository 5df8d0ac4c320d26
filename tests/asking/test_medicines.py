"""Medicines of invented records: their names in every form, and whether they are taken now."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.answer import Answer, Status
from archqa.fhir import Store

NOW = "2025-06-02T12:00:00"
Ask = Callable[..., Answer]


def patient(**fields: Any) -> dict[str, Any]:
    return {"resourceType": "Patient", "id": "p1", "gender": "female", **fields}


def medicine(
    resource_type: str, name: str = "", status: str = "active", **fields: Any
) -> dict[str, Any]:
    resource = {"resourceType": resource_type, "status": status, **fields}
    resource["subject"] = {"reference": "Patient/p1"}
    if name:
        resource["medicationCodeableConcept"] = {"text": name}
    if resource_type == "MedicationRequest":
        resource["intent"] = "order"
    return resource


def order(date: str, name: str = "", status: str = "active", **fields: Any) -> Any:
    return medicine("MedicationRequest", name, status, authoredOn=date, **fields)


def dispense(date: str, name: str, days: float | None = None, **fields: Any) -> Any:
    if days is not None:
        fields["daysSupply"] = {"value": days, "unit": "days", "code": "d"}
    return medicine(
        "MedicationDispense", name, "completed", whenHandedOver=date, **fields
    )


def build(tmp_path: Path, *resources: dict[str, Any], **of_patient: Any) -> Path:
    lines = [json.dumps(patient(**of_patient))]
    for number, resource in enumerate(resources):
        lines.append(json.dumps({"id": f"r{number}", **resource}))
    source = tmp_path / "record.ndjson"
    source.write_text("\n".join(lines))
    with Store.open(tmp_path / "record.db", create=True) as store:
        assert not store.load([source]).mistakes
    return tmp_path / "record.db"


def ask(record: Path, question: str) -> Answer:
    return archqa.ask(question, patient="p1", record=record, now=NOW)


SUBSTANCE = {"resourceType": "Substance", "id": "s", "code": {"text": "levetiracetam"}}
PRODUCT = {
    "resourceType": "Medication",
    "id": "m",
    "ingredient": [{"itemReference": {"reference": "Substance/s"}}],
}
CONTAINED = {
    "resourceType": "Medication",
    "id": "c",
    "ingredient": [
        {
            "itemCodeableConcept": {"text": "bisoprolol"},
            "strength": {
                "numerator": {"value": 5, "unit": "mg"},
                "denominator": {"value": 1},
            },
        },
        {"itemCodeableConcept": {"text": "lactose"}, "isActive": False},
    ],
}


@pytest.mark.parametrize(
    "resource_type",
    ["MedicationRequest", "MedicationStatement"],
)
def test_a_product_has_the_names_of_what_it_contains(
    tmp_path: Path, resource_type: str
) -> None:
    referenced = medicine(
        resource_type, medicationReference={"reference": "Medication/m"}
    )
    contained = medicine(
        resource_type, medicationReference={"reference": "#c"}, contained=[CONTAINED]
    )
    record = build(tmp_path, referenced, contained, SUBSTANCE, PRODUCT)
    assert ask(record, "Is she on levetiracetam?").text.startswith("Yes: Levetiracetam")
    assert (
        "Bisoprolol 5 mg" in ask(record, "What dose of bisoprolol does she take?").text
    )
    assert "Lactose" not in ask(record, "What medicines is she taking?").text
    summary = archqa.brief(patient="p1", record=record, now=NOW).text
    assert "Levetiracetam" in summary
    assert "Bisoprolol 5 mg" in summary


def test_a_supply_that_lasts_is_a_yes_and_one_that_is_over_is_neither(
    tmp_path: Path,
) -> None:
    record = build(
        tmp_path,
        dispense("2025-05-10", "losartan 50 mg tablet", 90),
        dispense("2025-01-08", "prednisone 20 mg tablet", 5),
        dispense("2025-05-25", "omeprazole 20 mg capsule"),
    )
    lasting = ask(record, "Is she taking losartan?").text
    assert lasting.startswith("Yes: Losartan 50 mg tablet, dispensed 2025-05-10")
    assert "90 days' supply" in lasting
    over = ask(record, "Is she still on prednisone?").text
    assert over.startswith("The record does not say")
    assert "5 days' supply, which ran out about 2025-01-13" in over
    unknown = ask(record, "Is she taking omeprazole?").text
    assert "for how long is not recorded" in unknown


@pytest.mark.parametrize(
    ("days", "date", "opening"),
    [
        (30, "2025-05-04", "Yes"),
        (30, "2025-04-19", "Probably"),
        (30, "2025-04-18", "The record does not say"),
        (90, "2025-02-03", "Probably"),
        (90, "2025-02-01", "The record does not say"),
    ],
)
def test_people_may_refill_late_by_half_the_supply_at_most_30_days(
    tmp_path: Path, days: float, date: str, opening: str
) -> None:
    record = build(tmp_path, dispense(date, "metformin 500 mg tablet", days))
    assert ask(record, "Is she taking metformin?").text.startswith(opening)


def test_the_dispense_of_an_order_tells_of_the_order(tmp_path: Path) -> None:
    prescription = [{"reference": "MedicationRequest/r0"}]
    record = build(
        tmp_path,
        order("2018-02-01", "warfarin 5 mg tablet"),
        dispense(
            "2025-05-20",
            "warfarin 5 mg tablet",
            30,
            authorizingPrescription=prescription,
        ),
    )
    answer = ask(record, "Is she taking warfarin?")
    assert answer.text == (
        "Yes: Warfarin 5 mg tablet, ordered 2018-02-01 "
        "(active, dispensed 2025-05-20, 30 days' supply)"
    )
    assert {row.id for row in answer.evidence} == {
        "MedicationRequest/r0",
        "MedicationDispense/r1",
    }
    last = ask(record, "When was warfarin last filled?").text
    assert last.startswith("Warfarin 5 mg tablet, dispensed 2025-05-20")


@pytest.mark.parametrize(
    ("date", "opening"), [("2020-06-03", "Yes"), ("2020-06-01", "Not certain")]
)
def test_an_order_of_more_than_five_years_ago_that_never_ended_is_no_yes(
    tmp_path: Path, date: str, opening: str
) -> None:
    record = build(tmp_path, order(date, "amoxicillin 500 mg capsule"))
    assert ask(record, "Is she taking amoxicillin?").text.startswith(opening)


@pytest.mark.parametrize("date", ["2014-08-09T03:10:00Z", None])
def test_a_patient_who_died_takes_nothing(tmp_path: Path, date: str | None) -> None:
    death = {"deceasedDateTime": date} if date else {"deceasedBoolean": True}
    record = build(tmp_path, order("2013-05-05", "metformin 500 mg tablet"), **death)
    died = "the patient died on 2014-08-09" if date else "the patient died."
    answer = ask(record, "Is she still taking metformin?")
    assert answer.text.startswith(f"No: {died}")
    assert "Patient/p1" in answer.lines[0].citations
    listed = ask(record, "What medicines is she on now?").text
    assert listed.startswith(f"None: {died}")
    assert "never ended in the record" in listed


@pytest.mark.parametrize(
    ("later", "status", "opening"),
    [
        ("sertraline 50 mg tablet", "stopped", "No, by the latest order"),
        ("sertraline 100 mg tablet", "stopped", "No, by the latest order"),
        ("sertraline 50 mg tablet", "completed", "No, by the latest order"),
        ("sertraline 100 mg tablet", "completed", "Yes"),
        ("sertraline 20 mg/mL injection", "stopped", "Yes"),
    ],
)
def test_a_later_order_that_ended_wins_over_an_earlier_active_one(
    tmp_path: Path, later: str, status: str, opening: str
) -> None:
    record = build(
        tmp_path,
        order("2024-02-01", "sertraline 50 mg tablet"),
        order("2025-03-03", later, status),
    )
    answer = ask(record, "Is she still taking sertraline?").text
    assert answer.startswith(opening)
    if opening != "Yes":
        assert f"but the later order of 2025-03-03 is {status}" in answer


def test_the_record_says_why_a_medicine_was_stopped(tmp_path: Path) -> None:
    record = build(
        tmp_path,
        order(
            "2025-02-01",
            "lisinopril 10 mg tablet",
            "stopped",
            statusReason={"text": "dry cough"},
        ),
        order(
            "2025-02-02",
            "simvastatin 20 mg tablet",
            "stopped",
            note=[{"text": "Muscle pain on the full dose"}],
        ),
    )
    assert "dry cough" in ask(record, "Why was lisinopril stopped?").text
    noted = ask(record, "Why did she stop taking simvastatin?")
    assert noted.status is Status.NOT_FOUND
    assert "Muscle pain on the full dose" in noted.text
