import json

import numpy as np
import pytest

from archqa.engine.answer_finder import (
    SETTINGS_FILE,
    JudgementWeights,
    judge_sentences,
)
from archqa.notes.assertion import Passage
from archqa.notes.focus import question_focus
from training.answer_finder import ANSWERED_SHARE, ScoredQuestion, calibrate
from training.corpora import ShortQuestion

WEIGHTS = JudgementWeights.model_validate(
    json.loads(SETTINGS_FILE.read_text())["judgement"]
)
SENTENCES = ("The drain was pulled.", "She went home on Monday.", "She ate.")


def scored(
    question: str, logits: list[float], *groups: tuple[int, ...]
) -> ScoredQuestion:
    asked = ShortQuestion("note", question, SENTENCES, groups)
    return ScoredQuestion(asked, np.array(logits))


def scored_questions() -> list[ScoredQuestion]:
    """Answers have high logits; of equal ones, those without the time that is asked for have none."""
    rows = []
    for step in range(20):
        rows.append(
            scored("When did she go home?", [-3.0, 2.0 - step / 20, -4.0], (1,))
        )
        rows.append(scored("When was the drain pulled?", [2.0 - step / 20, -3.0, -4.0]))
        rows.append(scored("Was the drain pulled?", [1.5, -3.0, -4.0], (0,)))
        rows.append(scored("Was the wound closed?", [-2.5 + step / 20, -3.0, -4.0]))
    return rows


def test_higher_logits_make_answers_likelier() -> None:
    settings = calibrate(scored_questions(), WEIGHTS, "of a test")
    assert settings.slope > 0
    assert settings.provenance == "of a test"


def test_the_threshold_lets_the_share_of_the_answerable_questions_through() -> None:
    rows = scored_questions()
    settings = calibrate(rows, WEIGHTS, "")
    best = []
    for row in rows:
        if row.question.groups:
            passages = [Passage(text) for text in row.question.sentences]
            focus = question_focus(row.question.question)
            judged = judge_sentences(focus, passages, row.logits, settings)
            best.append(judged.log_odds.max())
    answered = sum(log_odds >= settings.threshold - 1e-9 for log_odds in best)
    assert answered / len(best) == pytest.approx(ANSWERED_SHARE, abs=1 / len(best))
