"""Whether the percentages of a judge say more than its labels do."""

from collections.abc import Sequence

from archqa.core.judgement import Judgement, Relevance
from archqa.core.probability import label_probability, stated_probability

_LEAST_SEPARATION = 0.9
"""Least chance that a sentence called essential has a higher percentage than one called
not-relevant: judges that mean their percentages have 1."""

_HIGH, _LOW = 0.7, 0.3
"""The likeliest essential sentence is above the one, the least likely not-relevant one below the
other, if the whole range is used."""


def counted_probabilities(judgements: Sequence[Judgement]) -> list[float]:
    """The probability of each judgement of one judge on one note: as stated if the percentages are
    useful, else by its label. A judge loses nothing by its percentages that its labels have.
    """
    if are_useful(judgements):
        return [stated_probability(judgement) for judgement in judgements]
    return [label_probability(judgement.label) for judgement in judgements]


def are_useful(judgements: Sequence[Judgement]) -> bool:
    """Whether the percentages tell sentences of one label apart, agree with the labels, and use the
    range.
    """
    essential = _stated(judgements, Relevance.ESSENTIAL)
    not_relevant = _stated(judgements, Relevance.NOT_RELEVANT)
    if not essential or not not_relevant:
        return True  # There is nothing to compare.
    if len({*essential}) == len({*not_relevant}) == 1:
        return False
    if max(essential) < _HIGH or min(not_relevant) > _LOW:
        return False
    return _separation(essential, not_relevant) >= _LEAST_SEPARATION


def _stated(judgements: Sequence[Judgement], label: Relevance) -> list[float]:
    return [stated_probability(each) for each in judgements if each.label is label]


def _separation(higher: Sequence[float], lower: Sequence[float]) -> float:
    """The chance that a value of the first is above one of the second, ties counting half."""
    wins = sum((a > b) + (a == b) / 2 for a in higher for b in lower)
    return wins / (len(higher) * len(lower))
