import numpy as np
import pytest

from archqa.engine.training.answer_calibration import ScoredQuestion, calibrate, evidence_score
from archqa.engine.training.asked_corpus import AskedQuestion

SENTENCES = ("The drain was pulled.", "She went home on Monday.", "She ate.")


def scored(question: str, logits: list[float], *groups: tuple[int, ...]) -> ScoredQuestion:
    asked = AskedQuestion("note", question, SENTENCES, groups)
    return ScoredQuestion(asked, np.array(logits))


def many() -> list[ScoredQuestion]:
    """Answers have high logits; of equal ones, those without the time that is asked for have none."""
    rows = []
    for step in range(20):
        rows.append(scored("When did she go home?", [-3.0, 2.0 - step / 20, -4.0], (1,)))
        rows.append(scored("When was the drain pulled?", [2.0 - step / 20, -3.0, -4.0]))
        rows.append(scored("Was the drain pulled?", [1.5, -3.0, -4.0], (0,)))
        rows.append(scored("Was the wound closed?", [-2.5 + step / 20, -3.0, -4.0]))
    return rows


def test_higher_logits_and_the_kind_that_is_asked_for_make_answers_likelier() -> None:
    settings = calibrate(many(), "of a test")
    assert settings.slope > 0
    assert settings.lacking > 1
    assert 0 < settings.min_answerable < 1
    assert settings.provenance == "of a test"


def test_the_choice_is_scored_by_groups_for_recall_and_sentences_for_precision() -> None:
    settings = calibrate(many(), "").model_copy(
        update={"min_answerable": 0.0, "margin": 10.0, "min_logit": -10.0, "max_selected": 2}
    )
    rows = [scored("Did she eat?", [1.0, -9.0, 0.5], (2,)), scored("Fever?", [1.0, 0.0, 0.0])]
    assert evidence_score(rows, settings) == (0.5, 1.0)
    assert evidence_score(rows, settings).f1 == pytest.approx(2 / 3)


def test_a_question_that_is_not_answered_misses_its_groups() -> None:
    settings = calibrate(many(), "").model_copy(update={"min_answerable": 1.1})
    assert evidence_score([scored("Did she eat?", [1.0, 0.0, 5.0], (2,))], settings).recall == 0.0
