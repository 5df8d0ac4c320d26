"""The choice of sentences, and the shipped network on notes of a few sentences."""

import numpy as np
import pytest

from archqa.engine.answer_finder import (
    AnswerFinder,
    AnswerFinderSettings,
    JudgementWeights,
    judge_sentences,
    select_sentences,
)
from archqa.notes.assertion import Passage
from archqa.notes.focus import question_focus
from archqa.notes.sentences import case_from_text

WEIGHTS = JudgementWeights(
    named=(1.0, 2.0),
    in_context=(0.5, 1.0),
    absent=(-2.0, -2.0),
    absent_finding=(-1.0, -1.0),
    other=-5.0,
    other_finding=(-1.0, -2.0),
    mismatch=-10.0,
    missing_attribute=-5.0,
    has_attribute=0.5,
    coverage=0.0,
    least_direct=-2.5,
)
SETTINGS = AnswerFinderSettings(
    slope=1.0,
    bias=0.0,
    judgement=WEIGHTS,
    min_answerable=0.5,
    margin=1.0,
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
        ([-0.2, -0.1, -3.0], ()),
        ([2.0, 2.0], (0, 1)),
    ],
)
def test_sentences_near_the_best_one_are_selected(
    logits: list[float], selected: tuple[int, ...]
) -> None:
    assert select_sentences(np.array(logits), SETTINGS) == selected


def log_odds(question: str, *texts: str) -> list[float]:
    passages = [Passage(text) for text in texts]
    logits = np.ones(len(texts))
    judged = judge_sentences(question_focus(question), passages, logits, SETTINGS)
    return judged.log_odds.tolist()


def test_a_sentence_without_the_time_that_is_asked_for_answers_less_likely() -> None:
    with_time, without = log_odds(
        "When was it wet?", "It was wet on Monday.", "It was very wet."
    )
    assert with_time > without


def test_a_sentence_on_another_drug_hardly_answers() -> None:
    named, other = log_odds(
        "Why was heparin stopped?",
        "Heparin was stopped because of a rash.",
        "Warfarin was stopped because of a rash.",
    )
    assert named > 0 > other


def test_a_note_without_sentences_answers_nothing() -> None:
    assert log_odds("Why?") == []
    assert select_sentences(np.zeros(0), SETTINGS) == ()


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
