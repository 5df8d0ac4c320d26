import numpy as np
import pytest

from archqa.engine.answer_finder import AnswerFinderSettings, answerable_probability
from training.answer_finder import ANSWERED_SHARE, ScoredQuestion, calibrate
from training.corpora import ShortQuestion

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


def test_higher_logits_make_answers_likelier_and_the_lack_of_what_is_asked_for_less() -> (
    None
):
    settings = calibrate(scored_questions(), "of a test")
    assert settings.slope > 0
    assert settings.lacking > 0
    assert settings.provenance == "of a test"


def test_the_threshold_lets_the_share_of_the_answerable_questions_through() -> None:
    rows = scored_questions()
    settings = calibrate(rows, "")
    answerable = [row for row in rows if row.question.groups]
    answered = [
        row
        for row in answerable
        if probability(row, settings) >= settings.min_answerable
    ]
    assert len(answered) / len(answerable) == pytest.approx(
        ANSWERED_SHARE, abs=1 / len(answerable)
    )


def probability(row: ScoredQuestion, settings: AnswerFinderSettings) -> float:
    sentences = list(row.question.sentences)
    return answerable_probability(
        row.question.question, sentences, row.logits, settings
    )
