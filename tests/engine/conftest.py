"""Small invented cases, and strategies for large and broken ones."""

import pytest

from archqa.core.case import Case, Phrase, Sentence
from archqa.engine import Engine

NOTE = (
    "HOSPITAL COURSE:",
    "The patient was admitted with fever and flank pain.",
    "Urine culture grew E. coli, and ceftriaxone was started because of pyelonephritis.",
    "Her fever resolved within two days and she was switched to ciprofloxacin.",
    "She lives with her sister and works as a teacher.",
    "DISCHARGE INSTRUCTIONS:",
    "Take ciprofloxacin 500 mg twice daily for 7 days.",
    "Please get your flu shot.",
)


def make_case(
    texts: tuple[str, ...],
    *,
    question: str = "Why was she given antibiotics, and for how long?",
) -> Case:
    sentences = tuple(
        Sentence(id=f"s{index}", text=text, paragraph_id="0")
        for index, text in enumerate(texts)
    )
    message = "I was in with a kidney infection. Why did I get antibiotics and how long do I take them?"
    return Case(
        id="invented",
        patient_narrative=message,
        patient_question=(
            Phrase(
                id="0", text="Why did I get antibiotics and how long do I take them?"
            ),
        ),
        clinician_question=question,
        sentences=sentences,
    )


@pytest.fixture
def pyelonephritis_case() -> Case:
    return make_case(NOTE)


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.load()
