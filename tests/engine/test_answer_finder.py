"""The choice of sentences, and the shipped network on notes of a few sentences."""

import numpy as np
import pytest

from archqa.engine.answer_finder import (
    AnswerFinder,
    AnswerFinderSettings,
    answerable_probability,
    select_sentences,
)
from archqa.notes.sentences import case_from_text

SETTINGS = AnswerFinderSettings(
    slope=1.0,
    bias=0.0,
    lacking=2.0,
    min_answerable=0.5,
    margin=1.0,
    min_logit=0.0,
    max_selected=2,
)
NOTE = """HISTORY OF PRESENT ILLNESS: A 60-year-old woman with a cough since March.
LABORATORY DATA: Hemoglobin 9.2, platelet count 38,000, creatinine 1.1.
HOSPITAL COURSE: Heparin was stopped because her platelets fell.
She was discharged to her daughter's home on day 6."""


@pytest.mark.parametrize(
    ("logits", "selected"),
    [
        ([0.5, 2.0, -1.0], (1,)),
        ([1.5, 2.0, 1.8], (1, 2)),
        ([-0.2, -0.1, -3.0], (1,)),
        ([2.0, 2.0], (0, 1)),
    ],
)
def test_sentences_near_the_best_one_are_selected(
    logits: list[float], selected: tuple[int, ...]
) -> None:
    assert select_sentences(np.array(logits), SETTINGS) == selected


def test_a_best_sentence_without_the_time_that_is_asked_for_makes_an_answer_less_likely() -> (
    None
):
    logits = np.array([1.0, -4.0])
    texts = ["The drain was pulled.", "She went home on Monday."]
    asked_when = answerable_probability(
        "When was the drain pulled?", texts, logits, SETTINGS
    )
    asked_whether = answerable_probability(
        "Was the drain pulled?", texts, logits, SETTINGS
    )
    assert asked_whether == pytest.approx(1 / (1 + np.exp(-1.0)))
    assert asked_when == pytest.approx(1 / (1 + np.exp(1.0)))


def test_a_note_without_sentences_answers_nothing() -> None:
    assert answerable_probability("Why?", [], np.zeros(0), SETTINGS) == 0.0


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("platelet count?", "38,000"),
        ("Why was heparin stopped?", "platelets fell"),
        ("Where did she go afterwards?", "daughter's home"),
    ],
)
def test_the_shipped_network_finds_the_sentence(question: str, best: str) -> None:
    case = case_from_text(question, NOTE)
    finding = AnswerFinder.load().find(case)
    assert finding.is_answered
    assert best in case.sentences[finding.selected[0]].text


@pytest.mark.parametrize(
    "question", ["What is her blood type?", "Who is her landlord?"]
)
def test_the_shipped_network_knows_what_a_note_does_not_say(question: str) -> None:
    case = case_from_text(question, "The weather is fine. The dog sleeps.")
    assert not AnswerFinder.load().find(case).is_answered


def test_what_is_excluded_is_not_selected() -> None:
    case = case_from_text("platelet count?", NOTE)
    best = AnswerFinder.load().find(case).selected[0]
    assert best not in AnswerFinder.load().find(case, frozenset({best})).selected
