"""How follow-up questions are understood, from tables of threads."""

import json
from pathlib import Path

import pytest

from archqa.asking.thread import Thread
from archqa.asking.thread.follow_up_words import templates
from tests.asking.follow_up_tables import (
    Expected,
    is_expected,
    threads,
    turn,
    understood_as,
)

METFORMIN = turn(
    "Is she on metformin?",
    "Is she on metformin?",
    "Yes: Metformin hydrochloride 500 mg Oral Tablet, ordered 2022-01-11 (active)",
    "MedicationRequest",
)
FEVER = turn(
    "Did she have a fever?", "Did she have a fever?", "She was febrile.", "note"
)


def after(*turns: object) -> Thread:
    return Thread(turns=turns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "expected", list(threads("follow_ups.tsv")), ids=lambda each: each.typed
)
def test_a_follow_up_is_understood_as_the_table_says(expected: Expected) -> None:
    understood = understood_as(expected.typed, expected.thread)
    assert is_expected(understood, expected), understood


MOST_KEPT_ASIDE = 33


def test_most_follow_ups_that_were_held_out_are_understood() -> None:
    rows = list(threads("follow_ups_held_out.tsv"))
    right = [
        row for row in rows if is_expected(understood_as(row.typed, row.thread), row)
    ]
    assert len(rows) == 40
    assert len(right) >= MOST_KEPT_ASIDE


def test_whole_questions_are_passed_unchanged(shared: Path) -> None:
    """The questions of the sets for measuring are all complete by themselves."""
    questions = [
        row["q"] for row in json.loads((shared / "ask" / "record.json").read_text())
    ]
    for last in (METFORMIN, FEVER):
        changed = [
            each for each in questions if understood_as(each, after(last)) != "NEW"
        ]
        assert changed == []


@pytest.mark.parametrize(
    "question",
    [
        "Is it true that she had a stroke?",
        "Does this patient smoke?",
        "Was that rash itchy?",
        "Does he have asthma and is it severe?",
        "Any falls these past few weeks?",
    ],
)
def test_words_that_point_to_nothing_before_are_left(question: str) -> None:
    assert understood_as(question, after(METFORMIN)) == "NEW"


def test_of_several_drugs_the_one_is_asked_back_by_name() -> None:
    both = "Metformin 500 mg Oral Tablet, ordered 2022-01-11 // Warfarin 5 mg Oral Tablet, ordered 2022-01-12"
    listed = turn("What is he on?", "What is he on?", both, "MedicationRequest")
    assert understood_as("what dose?", after(listed)) == "UNCLEAR"
    assert understood_as("what dose of the second one?", after(listed)) == (
        "What is the dose of warfarin?"
    )
    assert understood_as("what dose of the third one?", after(listed)) == "UNCLEAR"


def test_a_date_is_moved_back_again_and_again_and_left_out_for_another_subject() -> (
    None
):
    first = turn("last A1c?", "last A1c?", "A1c 6.4 % on 2026-04-28", "Observation")
    assert (
        understood_as("and before that?", after(first)) == "last A1c before 2026-04-28?"
    )
    second = turn(
        "and?", "last A1c before 2026-04-28?", "A1c 6 % on 2024-01-01", "Observation"
    )
    second = second.model_copy(update={"without_limit": "last A1c?"})
    assert (
        understood_as("and before that?", after(first, second))
        == "last A1c before 2024-01-01?"
    )
    assert understood_as("and LDL?", after(first, second)) == "last LDL?"


def test_without_a_date_nothing_is_before() -> None:
    assert understood_as("and before that?", after(FEVER)) == "UNCLEAR"


def test_before_the_first_question_only_whole_questions_are_understood() -> None:
    assert understood_as("what dose?", Thread()) == "UNCLEAR"
    assert understood_as("last A1c?", Thread()) == "NEW"
    assert understood_as("thanks", Thread()) == "NONE"


def test_every_template_is_a_question() -> None:
    for template in templates().values():
        question = template.format(
            subject="the x", name="x", which="last", relative="her mother"
        )
        assert question.endswith("?") or question.startswith("List all")
