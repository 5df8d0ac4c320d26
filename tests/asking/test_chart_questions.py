"""The parts of a question to a chart, and what kind of question each is."""

import pytest

from archqa.asking.chart.chart_answer import judged_parts
from archqa.asking.question_parts import (
    asks,
    question_parts,
)


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Why was it stopped?", ["Why was it stopped?"]),
        (
            "When was the hernia found and when was it repaired?",
            ["When was the hernia found", "when was it repaired (hernia)?"],
        ),
        (
            "Digoxin is among the orders. Is she taking it, and if not, why?",
            ["Is she taking it (Digoxin)?", "if not, why (Digoxin)?"],
        ),
        (
            "If she falls again, what does she want done?",
            ["If she falls again, what does she want done?"],
        ),
        (
            "Who is her proxy, and does she drive?",
            ["Who is her proxy", "does she drive?"],
        ),
        ("What was said of salt and water?", ["What was said of salt and water?"]),
    ],
)
def test_a_question_is_read_part_by_part(question: str, parts: list[str]) -> None:
    assert list(question_parts(question).parts) == parts


def test_a_sentence_that_asks_nothing_is_background() -> None:
    read = question_parts(
        "We are planning a hip replacement. What did cardiology advise?"
    )
    assert read.background == ("We are planning a hip replacement.",)
    assert read.parts == ("What did cardiology advise (hip replacement)?",)


@pytest.mark.parametrize(
    "question",
    ["Where does she live now?", "Is he still on oxygen?", "Who is her proxy?"],
)
def test_a_question_about_the_present_is_known(question: str) -> None:
    assert asks(question, "present")


@pytest.mark.parametrize(
    "question", ["Why was it stopped?", "What did the echo of 2020 show?"]
)
def test_a_question_about_the_past_is_none_about_the_present(question: str) -> None:
    assert not asks(question, "present")


def test_a_question_for_all_of_something_is_known() -> None:
    assert asks("List the statins that she has tried.", "all")
    assert not asks("Which statin does she take?", "all")


@pytest.mark.parametrize(
    "question",
    [
        "Should I restart warfarin?",
        "How likely is she to fall again?",
        "Which statin should we give next?",
        "Should I put him back on a statin, and which one?",
    ],
)
def test_a_judgement_is_not_asked_of_the_notes(question: str) -> None:
    assert judged_parts(question_parts(question).parts).askable == ()


@pytest.mark.parametrize(
    "question",
    [
        "What did cardiology recommend?",
        "Can she have contrast again?",
        "What does he want if his heart stops?",
        "Does the nodule need a follow up scan?",
    ],
)
def test_what_somebody_advised_wants_or_allows_is_asked_of_the_notes(
    question: str,
) -> None:
    assert judged_parts(question_parts(question).parts).judgements == ()
