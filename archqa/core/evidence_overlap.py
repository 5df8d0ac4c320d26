"""ONE rule for whether two stretches of a text are the same evidence."""

Offsets = tuple[int, int]
"""Characters of a text from the first to the one after the last."""

MIN_COVERAGE = 0.5
"""The share of the shorter of two stretches that they must have in common."""


def is_same_evidence(first: Offsets, second: Offsets) -> bool:
    """Whether two stretches share half of the shorter one's characters."""
    shared = min(first[1], second[1]) - max(first[0], second[0])
    shorter = min(first[1] - first[0], second[1] - second[0])
    return shared >= MIN_COVERAGE * shorter
