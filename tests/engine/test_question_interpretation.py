"""A question derived by rule: short, in the third person, and only of the message's words."""

from pathlib import Path

import pytest

from archqa.engine.question import derive_clinician_question, extract_questions
from archqa.tasks import load_cases
from scoring.tasks import archehr2026

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("message", "question"),
    [
        (
            "They kept my mother for weeks. Why did they keep her so long? Thanks",
            "Why did they keep her so long?",
        ),
        ("So am I going to need dialysis?", "Is the patient going to need dialysis?"),
        ("My dad was confused. Was it my dad's new pill?", "Was it his new pill?"),
        ("no marks here why did they stop it", "No marks here why did they stop it?"),
        ("", "What happened?"),
    ],
)
def test_the_question_of_a_message_in_the_third_person(
    message: str, question: str
) -> None:
    assert derive_clinician_question(message) == question


def test_two_short_questions_are_joined() -> None:
    question = derive_clinician_question(
        "My son had a seizure. Was it the fever? Will it happen again?"
    )
    assert question == "Was it the fever, and will it happen again?"


def test_never_more_than_15_words_and_never_a_pipe() -> None:
    for name in ("dev", "train", "train-real"):
        for case in load_cases(ROOT / f"data/{name}.json").notes:
            question = derive_clinician_question(case.patient_narrative)
            assert 1 <= len(question.split()) <= 15
            assert question.endswith("?")
            assert "|" not in question


def test_questions_are_found_with_and_without_marks() -> None:
    assert extract_questions("I hurt. Why? When does it end?") == [
        "Why",
        "When does it end",
    ]
    assert extract_questions("I hurt. Tell me why it hurts") == ["Tell me why it hurts"]


def test_it_says_more_of_the_clinicians_question_than_the_messages_first_words_do() -> (
    None
):
    cases = load_cases(ROOT / "data/dev.json").notes
    references = [
        archehr2026.Reference(
            case_id=case.id, clinician_question=case.clinician_question
        )
        for case in cases
    ]
    derived, opening = (
        archehr2026.score(
            [{"case_id": case.id, "prediction": predict(case.patient_narrative)} for case in cases],
            references, subtask=1, metrics=["rougeLsum"], bootstrap=0,
        ).scores["rougeLsum"]
        for predict in (derive_clinician_question, lambda message: " ".join(message.split()[:15]))
    )  # fmt: skip
    assert derived > opening + 10
