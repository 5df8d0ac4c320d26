"""One rule from a label to a probability; its numbers are written out here, so that a change of one is seen."""

import pytest

from archqa.core.judgement import (
    LABEL_WEIGHT,
    Judgement,
    Relevance,
    label_probability,
    mean_probabilities,
    stated_probability,
)


def judgement(
    label: Relevance, probability: float | None = None, sentence_id: str = "1"
) -> Judgement:
    return Judgement(sentence_id=sentence_id, label=label, probability=probability)


def test_a_label_of_a_key_counts_in_full() -> None:
    assert LABEL_WEIGHT == {
        Relevance.ESSENTIAL: 1.0,
        Relevance.SUPPLEMENTARY: 0.25,
        Relevance.NOT_RELEVANT: 0.0,
    }


@pytest.mark.parametrize(
    ("label", "probability"),
    [
        (Relevance.ESSENTIAL, 0.8),
        (Relevance.SUPPLEMENTARY, 0.275),
        (Relevance.NOT_RELEVANT, 0.1),
    ],
)
def test_a_bare_label_of_an_agent_counts_for_less(
    label: Relevance, probability: float
) -> None:
    assert label_probability(label) == pytest.approx(probability)
    assert stated_probability(judgement(label)) == pytest.approx(probability)


def test_a_stated_probability_is_used_whatever_the_label() -> None:
    assert stated_probability(judgement(Relevance.ESSENTIAL, 0.3)) == 0.3
    assert stated_probability(judgement(Relevance.NOT_RELEVANT, 0.0)) == 0.0


def test_the_mean_is_over_the_agents_that_judged_the_sentence() -> None:
    means = mean_probabilities(
        {
            "generalist": [
                judgement(Relevance.ESSENTIAL),
                judgement(Relevance.NOT_RELEVANT, sentence_id="2"),
            ],
            "cardiology": [judgement(Relevance.ESSENTIAL, 0.6)],
        }
    )
    assert means == {"1": pytest.approx(0.7), "2": pytest.approx(0.1)}
