"""Numbers that decide whether a question of a record is read or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from tests.fhir.invented import build_store, patient, ward_resources
from tests.query.clinic import blood_pressure
from tests.runs.fhir_questions import question_rows, write_csv


@pytest.fixture(scope="module")
def pressures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of three blood pressures."""
    resources = [
        patient("p"),
        blood_pressure("high", "2024-01-02T08:00:00Z", 152, 95),
        blood_pressure("middle", "2024-02-02T08:00:00Z", 118, 76),
        blood_pressure("low", "2024-03-02T08:00:00Z", 96, 60),
    ]
    with build_store(tmp_path_factory.mktemp("pressures"), resources) as store:
        return store.path


@pytest.mark.parametrize("number", [100, 105, 117])
def test_a_single_number_from_100_on_is_a_systolic_pressure(
    pressures: Path, number: int
) -> None:
    question = f"Has her blood pressure ever been above {number}?"
    answer = archqa.ask(question, patient="p", record=pressures)
    assert answer.text.startswith("Yes")
    cited = {name for line in answer.lines for name in line.citations}
    assert cited == {"Observation/high", "Observation/middle"}


@pytest.mark.parametrize("number", [60, 90, 99])
def test_a_single_number_below_100_may_be_either_pressure_and_is_not_guessed(
    pressures: Path, number: int
) -> None:
    question = f"Has her blood pressure ever been above {number}?"
    answer = archqa.ask(question, patient="p", record=pressures)
    assert answer.status == "not_understood"
    assert any(str(number) in words for words in answer.not_understood)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The answers about a ward's patient to questions with a clear, a faint and no subject."""
    folder = tmp_path_factory.mktemp("subjects")
    with build_store(folder, ward_resources()) as store:
        record = str(store.path)
    questions = (
        "How many visits?",
        "Which drugs were prescribed on 2130-01-02?",
        "What was given on 2130-01-02?",
        "How many tests?",
        "List the values.",
        "What was last drawn?",
    )
    rows = []
    for number, question in enumerate(questions):
        row = dict.fromkeys(question_rows()[0], "")
        row |= {
            "question_id": f"q{number}",
            "question": question,
            "patient_fhir_id": "p1",
        }
        row["assumption"] = "Assume the current time is 2131-12-31 23:59:00."
        rows.append(row)
    run = archqa.predict(
        write_csv(folder / "questions.csv", rows), out=folder / "run", record=record
    )
    submission = json.loads((run.path / "submission.json").read_text())
    return dict(zip(questions, submission, strict=True))


@pytest.mark.parametrize(
    ("question", "answer", "cited"),
    [
        ("How many visits?", "2", {"Encounter": ["h1", "h2"]}),
        (
            "Which drugs were prescribed on 2130-01-02?",
            "Insulin",
            {"MedicationRequest": ["r1"]},
        ),
    ],
)
def test_a_question_that_says_what_it_is_about_is_answered(
    answers: dict[str, dict[str, Any]],
    question: str,
    answer: str,
    cited: dict[str, list[str]],
) -> None:
    row = answers[question]
    assert answer in str(row["agent_answer"])
    assert cited.items() <= row["cited_fhir_resources"].items()


@pytest.mark.parametrize(
    "question",
    [
        "What was given on 2130-01-02?",
        "How many tests?",
        "List the values.",
        "What was last drawn?",
    ],
)
def test_a_question_with_a_faint_hint_of_its_subject_is_refused(
    answers: dict[str, dict[str, Any]], question: str
) -> None:
    """Something was given, tested, measured and drawn; of what, only a guess could say."""
    row = answers[question]
    assert row["agent_answer"] is None
    assert "does not say what it is about" in row["error"]
    assert row["cited_fhir_resources"] == {}
