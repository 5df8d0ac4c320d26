"""A question among sentences that ask nothing, and relatives who are the patient."""

import pytest

from archqa.query.questions.everyday import (
    NameIndex,
    NotUnderstood,
    PatientVocabulary,
    Understood,
    read_question,
)

LEFT_OUT = "Her cousin wants a copy"


def vocabulary(gender: str, *, has_family_history: bool = False) -> PatientVocabulary:
    return PatientVocabulary(
        tuple,
        lambda: NameIndex([]),
        lambda: NameIndex([]),
        lambda: gender,
        lambda: has_family_history,
    )


def test_a_sentence_that_asks_nothing_is_left_out_and_named() -> None:
    reading = read_question(f"{LEFT_OUT}. What is she taking?", vocabulary("female"))
    plain = read_question("What is she taking?", vocabulary("female"))
    assert isinstance(reading, Understood)
    assert isinstance(plain, Understood)
    assert (reading.queries, reading.left_out) == (plain.queries, (LEFT_OUT,))


@pytest.mark.parametrize(
    "background",
    [
        "She was frobnicated back in 2019",  # It names a time.
        "I do not mean the inpatient ones",  # It denies.
        "Not that",  # It is no sentence of its own.
        "Is she frobnicated at all by now?",  # It asks.
    ],
)
def test_a_sentence_that_may_limit_the_question_is_not_left_out(
    background: str,
) -> None:
    ending = "" if background.endswith("?") else "."
    reading = read_question(
        f"{background}{ending} What was her last A1c?", vocabulary("female")
    )
    assert isinstance(reading, NotUnderstood)


def test_a_question_that_refers_to_another_sentence_is_not_read_alone() -> None:
    reading = read_question(
        "They hung a zorb bag then. Was it metformin?", vocabulary("female")
    )
    assert isinstance(reading, NotUnderstood)


@pytest.mark.parametrize(
    ("question", "gender", "is_patient"),
    [
        ("has mom had a flu shot", "female", True),
        ("my husband's last A1c", "male", True),
        ("is my daughter allergic to penicillin", "female", True),
        ("has mom had a flu shot", "male", False),
        ("her mother's last A1c", "female", False),
        ("mom's sister's last A1c", "female", False),
        ("mother's last A1c", "female", False),
    ],
)
def test_a_relative_is_the_patient_where_the_gender_fits(
    question: str, gender: str, *, is_patient: bool
) -> None:
    reading = read_question(question, vocabulary(gender))
    assert isinstance(reading, Understood) == is_patient
    if isinstance(reading, Understood):
        assert reading.assumed


def test_a_record_that_tells_of_relatives_leaves_open_who_is_meant() -> None:
    told = vocabulary("female", has_family_history=True)
    assert isinstance(read_question("has mom had a flu shot", told), NotUnderstood)
