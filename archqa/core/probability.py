"""The one rule from a label to a probability; displays and training targets use it.

A key's label counts in full. An agent that states a bare label is trusted less: its label moves the
probability that a sentence is essential only between `NOT_RELEVANT_PROBABILITY` and
`ESSENTIAL_PROBABILITY`.
"""

from collections.abc import Iterable, Mapping

from archqa.core.judgement import Judgement, Relevance

LABEL_WEIGHT = {
    Relevance.ESSENTIAL: 1.0,
    Relevance.SUPPLEMENTARY: 0.25,
    Relevance.NOT_RELEVANT: 0.0,
}
"""How essential a sentence with this label of a key is: the training target of the cross-encoder.
"""

NOT_RELEVANT_PROBABILITY = 0.1
"""Probability of being essential of a sentence that an agent labels not-relevant."""

ESSENTIAL_PROBABILITY = 0.8
"""Probability of being essential of a sentence that an agent labels essential."""


def label_probability(label: Relevance) -> float:
    """The probability of being essential that an agent's bare label stands for."""
    span = ESSENTIAL_PROBABILITY - NOT_RELEVANT_PROBABILITY
    return NOT_RELEVANT_PROBABILITY + span * LABEL_WEIGHT[label]


def stated_probability(judgement: Judgement) -> float:
    """The probability in a judgement, else the one that its label stands for."""
    if judgement.probability is None:
        return label_probability(judgement.label)
    return judgement.probability


def mean_probabilities(judgements: Mapping[str, Iterable[Judgement]]) -> dict[str, float]:
    """Sentence id to the mean of the probabilities that the agents state."""
    stated: dict[str, list[float]] = {}
    for agent_judgements in judgements.values():
        for judgement in agent_judgements:
            probabilities = stated.setdefault(judgement.sentence_id, [])
            probabilities.append(stated_probability(judgement))
    return {sentence_id: sum(values) / len(values) for sentence_id, values in stated.items()}
