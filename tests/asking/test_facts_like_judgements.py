"""Facts that sound like judgements: leaving against advice, appointments, what was refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.fhir import Store

PATIENT = {"resourceType": "Patient", "id": "p", "gender": "female"}
SUBJECT = {"reference": "Patient/p"}


def stay(day: str, disposition: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceType": "Encounter",
        "id": f"stay-{day}",
        "status": "finished",
        "class": {"code": "IMP"},
        "subject": SUBJECT,
        "period": {"start": day, "end": day},
        "hospitalization": {"dischargeDisposition": disposition},
    }


def appointment(start: str, name: str, status: str = "booked") -> dict[str, Any]:
    return {
        "resourceType": "Appointment",
        "id": f"appointment-{start[:10]}",
        "status": status,
        "description": name,
        "start": start,
        "participant": [{"actor": SUBJECT, "status": "accepted"}],
    }


def omitted(name: str, reason: str) -> dict[str, Any]:
    return {
        "resourceType": "Procedure",
        "id": name.lower(),
        "status": "not-done",
        "subject": SUBJECT,
        "code": {"text": name},
        "performedDateTime": "2024-05-06",
        "statusReason": {"text": reason},
    }


def ask(folder: Path, question: str, *resources: dict[str, Any]) -> archqa.Answer:
    file = folder / "record.ndjson"
    file.write_text("\n".join(map(json.dumps, (PATIENT, *resources))))
    record = folder / "record.db"
    with Store.open(record, create=True) as store:
        store.load([file])
    return archqa.ask(question, patient="p", record=record, now="2025-06-02T12:00:00")


@pytest.mark.parametrize(
    "question",
    ["Did she leave AMA?", "Has she ever left the hospital against medical advice?"],
)
def test_leaving_against_advice_is_a_fact_of_a_visit(
    tmp_path: Path, question: str
) -> None:
    left = stay("2024-01-02", {"coding": [{"code": "aadvice"}]})
    answer = ask(tmp_path, question, left, stay("2024-03-02", {"text": "Home"}))
    assert answer.text.startswith("Yes: ")
    assert answer.lines[0].citations == ("Encounter/stay-2024-01-02",)


def test_other_discharges_are_shown_where_none_was_against_advice(
    tmp_path: Path,
) -> None:
    answer = ask(tmp_path, "Did she leave AMA?", stay("2024-03-02", {"text": "Home"}))
    assert answer.text.startswith("No, none is recorded: ")
    assert "Home" in answer.text


def test_the_next_appointment_lies_ahead_and_was_not_cancelled(tmp_path: Path) -> None:
    answer = ask(
        tmp_path,
        "When is her next appointment?",
        appointment("2025-06-02T09:00:00Z", "Dentist"),
        appointment("2025-07-01T09:00:00Z", "Eye clinic", "cancelled"),
        appointment("2025-08-01T09:00:00Z", "Lung clinic"),
    )
    assert answer.text == "Lung clinic on 2025-08-01"


def test_without_an_appointment_none_is_recorded(tmp_path: Path) -> None:
    answer = ask(tmp_path, "When is her next appointment?")
    assert answer.status.value == "not_found"


def test_what_was_refused_is_told_with_its_reason(tmp_path: Path) -> None:
    row = omitted("Colonoscopy", "Patient refused")
    answer = ask(tmp_path, "Did she decline a colonoscopy?", row)
    assert answer.text == "Yes: Colonoscopy on 2024-05-06 (not done: Patient refused)"


def test_what_was_not_done_for_another_reason_was_not_refused(tmp_path: Path) -> None:
    row = omitted("Mammogram", "Machine broken")
    answer = ask(tmp_path, "Did she refuse a mammogram?", row)
    assert answer.text.startswith("Not done, but not by refusal: ")
    assert "Machine broken" in ask(tmp_path, "Why was the mammogram not done?").text
