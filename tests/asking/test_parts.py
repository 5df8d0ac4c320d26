"""Questions of several parts, of which not all are clear."""

from pathlib import Path

import pytest

import archqa
from archqa.asking.answer import Answer
from tests.fhir.invented import Resource, build_store


def result(name: str, value: float, unit: str) -> Resource:
    return {
        "resourceType": "Observation",
        "id": name.lower(),
        "status": "final",
        "code": {"text": name},
        "subject": {"reference": "Patient/p"},
        "effectiveDateTime": "2025-02-03",
        "valueQuantity": {"value": value, "unit": unit},
    }


def ask(folder: Path, question: str) -> Answer:
    patient = {"resourceType": "Patient", "id": "p", "birthDate": "1960-05-05"}
    results = [
        result("Potassium", 4.1, "mmol/L"),
        result("Sodium", 139, "mmol/L"),
        result("Creatinine", 1.1, "mg/dL"),
        result("Hemoglobin", 12.9, "g/dL"),
    ]
    with build_store(folder, [patient, *results]) as store:
        return archqa.ask(
            question, patient="p", record=store.path, now="2025-06-02T12:00:00"
        )


@pytest.mark.parametrize(
    "question",
    [
        "potassium and zorblatt",
        "What is her potassium and what is her zorblatt?",
        "zorblatt and potassium",
    ],
)
def test_an_unknown_name_leaves_the_other_part_clear(
    tmp_path: Path, question: str
) -> None:
    answer = ask(tmp_path, question)
    assert answer.status == "answered"
    assert "4.1 mmol/L" in answer.lines[0].text
    assert "zorblatt" in answer.not_understood
    assert any("zorblatt" in remark for remark in answer.remarks)
    assert answer.is_partial


@pytest.mark.parametrize(
    "question",
    [
        "Is her potassium and zorblatt high?",
        "potassium and sodium without zorblatt",
        "potassium and not zorblatt",
        "potassium zorblatt",
    ],
)
def test_an_unknown_word_that_may_limit_the_question_is_not_left_out(
    tmp_path: Path, question: str
) -> None:
    assert ask(tmp_path, question).status == "not_understood"


def test_four_results_are_asked_for_at_once(tmp_path: Path) -> None:
    question = "What is her potassium, what is her sodium, what is her creatinine and what is her hemoglobin?"
    assert len(ask(tmp_path, question).lines) == 4
