"""Allergies that are denied, the family, and things recorded under another kind of rows."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.fhir import Store

PATIENT = {"resourceType": "Patient", "id": "p", "gender": "female"}
SUBJECT = {"reference": "Patient/p"}


def allergy(name: str, clinical: str = "active", **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "AllergyIntolerance",
        "id": name.replace(" ", "-"),
        "patient": SUBJECT,
        "clinicalStatus": {"coding": [{"code": clinical}]},
        "code": {"text": name},
        **more,
    }


def coded(kind: str, name: str, **more: Any) -> dict[str, Any]:
    resource = {"resourceType": kind, "id": name.replace(" ", "-"), "subject": SUBJECT}
    return {**resource, "code": {"text": name}, **more}


def relative(relationship: str, condition: str) -> dict[str, Any]:
    return {
        "resourceType": "FamilyMemberHistory",
        "id": condition.replace(" ", "-"),
        "status": "completed",
        "patient": SUBJECT,
        "relationship": {"text": relationship},
        "condition": [{"code": {"text": condition}}],
    }


def given(kind: str, day: str, status: str = "completed") -> dict[str, Any]:
    name = {"text": "influenza virus vaccine"}
    resource = {"resourceType": kind, "id": f"{kind}-{day}", "status": status}
    if kind == "Immunization":
        return {
            **resource,
            "patient": SUBJECT,
            "occurrenceDateTime": day,
            "vaccineCode": name,
        }
    return {
        **resource,
        "subject": SUBJECT,
        "effectiveDateTime": day,
        "medicationCodeableConcept": name,
    }


def ask(folder: Path, question: str, *resources: dict[str, Any]) -> archqa.Answer:
    file = folder / "record.ndjson"
    file.write_text("\n".join(map(json.dumps, (PATIENT, *resources))))
    record = folder / "record.db"
    with Store.open(record, create=True) as store:
        store.load([file])
    return archqa.ask(question, patient="p", record=record, now="2025-06-02T12:00:00")


@pytest.mark.parametrize("name", ["No Known Allergies", "NKA", "denies allergies"])
def test_that_no_allergy_is_known_is_stated_and_cited(
    tmp_path: Path, name: str
) -> None:
    answer = ask(tmp_path, "Does she have any allergies?", allergy(name))
    assert "No known allergies are recorded" in answer.text
    assert len(answer.lines[0].citations) == 1


def test_what_is_said_of_drugs_does_not_answer_for_peanuts(tmp_path: Path) -> None:
    entry = allergy("NKDA")
    assert (
        ask(tmp_path, "Is she allergic to peanuts?", entry).status.value == "not_found"
    )


def test_an_allergy_that_could_not_be_assessed_is_none(tmp_path: Path) -> None:
    answer = ask(tmp_path, "Does she have any allergies?", allergy("Unable to assess"))
    assert answer.text.startswith("Whether there are allergies is not known")


def test_an_allergy_is_shown_with_what_contradicts_it(tmp_path: Path) -> None:
    answer = ask(
        tmp_path, "What is she allergic to?", allergy("Penicillin"), allergy("NKDA")
    )
    assert answer.lines[0].text.startswith("Allergy to Penicillin")
    assert answer.lines[1].text.startswith("Against this: No known drug allergies")


def test_an_inactive_allergy_is_no_longer_one(tmp_path: Path) -> None:
    entry = allergy("Penicillin", clinical="inactive")
    answer = ask(tmp_path, "Is she allergic to penicillin?", entry)
    assert answer.text.startswith("No longer: Allergy to Penicillin")


def test_allergens_are_named_in_any_number(tmp_path: Path) -> None:
    answer = ask(tmp_path, "Is she allergic to bee stings?", allergy("Bee sting"))
    assert answer.text.startswith("Yes: ")


@pytest.mark.parametrize(
    ("question", "status", "text"),
    [
        ("Did her mother have diabetes?", "answered", "Yes: "),
        ("Did her father have diabetes?", "not_found", "No family history"),
        ("Does she have diabetes?", "not_found", "No diabetes"),
        ("Is there breast cancer in her family?", "answered", "Yes: "),
        ("Does she have breast cancer?", "not_found", "No breast cancer"),
        ("Did her mother have asthma?", "not_found", "No family history"),
    ],
)
def test_a_condition_of_the_family_is_that_of_the_relative(
    tmp_path: Path, question: str, status: str, text: str
) -> None:
    answer = ask(
        tmp_path,
        question,
        relative("mother", "Diabetes mellitus"),
        relative("mother-in-law", "Asthma"),
        coded("Condition", "Family history of malignant neoplasm of breast"),
    )
    assert answer.status.value == status
    assert answer.text.startswith(text)


def test_homelessness_may_be_a_result(tmp_path: Path) -> None:
    result = coded(
        "Observation",
        "Housing status",
        status="final",
        valueCodeableConcept={"text": "Homeless"},
    )
    answer = ask(tmp_path, "Is she homeless?", result)
    assert answer.text.startswith("Yes: Housing status: Homeless")


def test_a_picc_line_is_named_where_a_port_is_asked_for(tmp_path: Path) -> None:
    line = coded("Procedure", "PICC line insertion", status="completed")
    answer = ask(tmp_path, "Does she have a port?", line)
    assert answer.status.value == "not_found"
    assert "Not the same, but recorded: PICC line insertion" in answer.text


def test_pregnancies_are_counted_as_conditions(tmp_path: Path) -> None:
    pregnancies = [
        coded("Condition", "Normal pregnancy", onsetDateTime="2016-01-05"),
        coded("Condition", "Pregnancy", onsetDateTime="2018-01-05"),
    ]
    answer = ask(tmp_path, "How many times has she been pregnant?", *pregnancies)
    assert "2 diagnoses" in answer.text


def test_each_shot_counts_once_under_whichever_type(tmp_path: Path) -> None:
    answer = ask(
        tmp_path,
        "How many flu shots has she had?",
        given("Immunization", "2022-10-01"),
        given("MedicationAdministration", "2022-10-01"),
        given("MedicationAdministration", "2023-10-01"),
        given("MedicationAdministration", "2024-10-01", status="not-done"),
    )
    assert "2 immunizations, on 2022-10-01 and 2023-10-01" in answer.text
