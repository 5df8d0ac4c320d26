from pathlib import Path

import pytest

from .answer_quality import WRITERS, Labelled, labelled, measured

DEV = Path(__file__).parents[2] / "data" / "dev.json"


@pytest.fixture(scope="module")
def cases() -> Labelled:
    return labelled(DEV, limit=4)


def test_composed_answers_score_higher_than_the_first_sentences_of_the_note(
    cases: Labelled,
) -> None:
    engine = measured(cases, WRITERS["the engine"])
    baseline = measured(cases, WRITERS["first sentences"])
    for metric in ("strict_micro_f1", "rougeLsum", "rougeLsum_2026", "sari"):
        assert engine[metric] > baseline[metric], metric


def test_the_reference_answer_is_perfect_by_the_metric_whose_reference_it_is(
    cases: Labelled,
) -> None:
    scores = measured(cases, WRITERS["the key's reference answer"])
    assert scores["rougeLsum_2026"] == pytest.approx(100)


def test_most_citations_are_on_a_line_that_states_something(cases: Labelled) -> None:
    assert measured(cases, WRITERS["the engine"])["stated"] > 75
