"""Skeletons and frames: what is asked, without what it is asked of."""

import pytest

from archqa.query.everyday import Understood, read_question
from archqa.query.paraphrase.reduction import reduce_all
from archqa.query.paraphrase.skeleton import fits, frame_of, skeleton_of
from tests.query.everyday.invented_vocabulary import VOCABULARY


def frame(question: str) -> str:
    reading = read_question(question, VOCABULARY)
    assert isinstance(reading, Understood)
    return frame_of(skeleton_of(reading))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("last A1c", "most recent potassium"),
        ("A1c in 2020", "sodium since 2019"),
        ("last sodium and chloride", "last A1c"),
        ("has she ever had a stroke", "history of asthma"),
    ],
)
def test_questions_that_ask_the_same_have_one_frame(one: str, other: str) -> None:
    assert frame(one) == frame(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("last A1c", "first A1c"),
        ("last A1c", "average A1c"),
        ("last A1c", "when was her last A1c"),
        ("highest A1c", "lowest A1c"),
        ("asthma", "does she have asthma"),
        ("ER visits", "office visits"),
        ("is she alive", "is she dead"),
        ("how many allergies", "allergies"),
    ],
)
def test_questions_that_ask_something_else_have_other_frames(one: str, other: str) -> None:
    assert frame(one) != frame(other)


@pytest.mark.parametrize("question", ["last A1c", "A1c in 2020", "last three A1c", "allergies"])
def test_a_frame_holds_just_what_its_question_names(question: str) -> None:
    kinds = reduce_all(question, VOCABULARY, None).wording.kinds
    assert fits(frame(question), kinds)
    assert not fits(frame(question), (*kinds, "span") if "span" not in kinds else ())


def test_names_and_dates_do_not_reach_the_network() -> None:
    reduction = reduce_all("Maria's zorblatine and her sodium since 2019", VOCABULARY, None)
    assert reduction.text == "she metformin and her glucose in 2020"
