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


def test_all_results_are_shown_or_the_first_line_says_how_many_are_not(
    tmp_path: Path,
) -> None:
    def answer_of(count: int) -> Answer:
        results = []
        for number in range(count):
            day = f"20{10 + number // 28:02}-01-{number % 28 + 1:02}"
            potassium = result("Potassium", number + 1, "mmol/L")
            results.append({**potassium, "id": f"k{number}", "effectiveDateTime": day})
        patient: Resource = {"resourceType": "Patient", "id": "p"}
        with build_store(tmp_path / str(count), [patient, *results]) as store:
            path = store.path
        return archqa.ask("show all her potassium results", patient="p", record=path)

    answer = answer_of(30)
    assert len(answer.lines) == 30
    assert "more" not in answer.text
    assert "earlier" not in answer.text
    answer = answer_of(230)
    assert len(answer.lines) == 200
    assert answer.lines[0].text.startswith("The 200 latest of 230: Potassium 31 mmol/L")
