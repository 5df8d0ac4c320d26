"""Without its harmless words a question asks the same; no other word is left out, tagger or not."""

import pytest
from hypothesis import given, settings

from archqa.query.everyday import NotUnderstood, Reading, read_question
from archqa.query.paraphrase.harmless_words import is_harmless
from archqa.query.paraphrase.reduction import reduce_question
from tests.query.everyday.invented_vocabulary import VOCABULARY
from tests.query.everyday.questions import questions
from tests.query.everyday.test_every_word_counts import (
    DECIDING,
    answers_of,
    changed_questions,
)


def read_boldly(question: str) -> Reading | None:
    """What is read if the tagger confirms whatever it is asked."""
    reading = read_question(question, VOCABULARY)
    if not isinstance(reading, NotUnderstood):
        return reading
    reduction = reduce_question(question, VOCABULARY, None)
    return reduction.reading if reduction else None


def check_that_the_word_counts(pair: tuple[str, str]) -> None:
    question, changed = pair
    after = read_boldly(changed)
    before = read_question(question, VOCABULARY)
    assert after is None or answers_of(after) != answers_of(before), changed


@settings(max_examples=500, deadline=None)
@given(changed_questions())
def test_an_unknown_deciding_word_is_not_left_out(pair: tuple[str, str]) -> None:
    check_that_the_word_counts(pair)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(changed_questions())
def test_of_ten_thousand_no_deciding_word_is_left_out(pair: tuple[str, str]) -> None:
    check_that_the_word_counts(pair)


def test_deciding_words_are_not_harmless() -> None:
    assert not [word for word in DECIDING if is_harmless(word)]


@pytest.mark.parametrize("question", [question for question, _ in questions("not_understood")])
def test_what_the_grammar_must_refuse_stays_refused(question: str) -> None:
    reduction = reduce_question(question, VOCABULARY, None)
    words = {item.key for item in reduction.wording.items} if reduction else set()
    others = {word.removeprefix("word:") for word in words if word.startswith("word:")}
    assert reduction is None or all(map(is_harmless, others))


@pytest.mark.parametrize(
    ("question", "is_read"),
    [
        ("could you pull the last A1c", True),
        ("pull the last fasting A1c", False),
        ("her mom's last A1c", False),
    ],
)
def test_only_harmless_words_are_left_out(question: str, is_read: bool) -> None:
    reading = read_boldly(question)
    assert (reading is not None and not isinstance(reading, NotUnderstood)) == is_read
