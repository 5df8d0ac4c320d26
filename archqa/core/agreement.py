"""How well two judges agree on the same items."""

from collections import Counter
from collections.abc import Hashable, Sequence


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
    by_chance = sum(count * second_labels[label] for label, count in first_labels.items())
    expected = by_chance / len(pairs) ** 2
    if by_chance == len(pairs) ** 2:
        return None
    return (observed_agreement(pairs) - expected) / (1 - expected)
