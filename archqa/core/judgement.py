"""Whether an answer needs a sentence, as a person or an agent judges it; the probability that a label
stands for, and how well two judges agree.

A key's label counts in full. An agent that states a bare label is trusted less: its label moves the
probability that a sentence is essential only between `NOT_RELEVANT_PROBABILITY` and
`ESSENTIAL_PROBABILITY`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field

from archqa.core.value import FrozenModel

LabelScheme = Literal["binary", "multiclass"]
"""The paper's two variants (Table 1): essential / not-relevant, or with supplementary between them."""


class Relevance(StrEnum):
    # This docstring is part of the JSON schema sent to models, and so of the cache key.
    """The shared task's three labels (ArchEHR-QA 2025 key). A binary agent uses the first and the last."""

    ESSENTIAL = "essential"
    SUPPLEMENTARY = "supplementary"
    NOT_RELEVANT = "not-relevant"


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


class Judgement(FrozenModel):
    """One agent's label for one sentence, and why."""

    sentence_id: str
    label: Relevance
    rationale: str = ""
    probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="of being essential, where known",
    )


def label_probability(label: Relevance) -> float:
    """The probability of being essential that an agent's bare label stands for."""
    span = ESSENTIAL_PROBABILITY - NOT_RELEVANT_PROBABILITY
    return NOT_RELEVANT_PROBABILITY + span * LABEL_WEIGHT[label]


def stated_probability(judgement: Judgement) -> float:
    """The probability in a judgement, else the one that its label stands for."""
    if judgement.probability is None:
        return label_probability(judgement.label)
    return judgement.probability


def mean_probabilities(
    judgements: Mapping[str, Iterable[Judgement]],
) -> dict[str, float]:
    """Sentence id to the mean of the probabilities that the agents state."""
    stated: dict[str, list[float]] = {}
    for agent_judgements in judgements.values():
        for judgement in agent_judgements:
            probabilities = stated.setdefault(judgement.sentence_id, [])
            probabilities.append(stated_probability(judgement))
    return {
        sentence_id: sum(values) / len(values) for sentence_id, values in stated.items()
    }


def observed_agreement(pairs: Sequence[tuple[Hashable, Hashable]]) -> float:
    """The share of items, one at least, that both judges label alike."""
    return sum(first == second for first, second in pairs) / len(pairs)


def cohens_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa (1960) of the labels of each item by two judges.

    1 is full agreement, 0 is what chance gives. None where both give all items the same label, so
    that agreement by chance is certain.
    """
    first_labels = Counter(first for first, _ in pairs)
    second_labels = Counter(second for _, second in pairs)
    by_chance = sum(
        count * second_labels[label] for label, count in first_labels.items()
    )
    expected = by_chance / len(pairs) ** 2
    if by_chance == len(pairs) ** 2:
        return None
    return (observed_agreement(pairs) - expected) / (1 - expected)
