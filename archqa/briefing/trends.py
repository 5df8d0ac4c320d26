"""Arrows between two values of one thing."""

UP, DOWN, SAME = "↑", "↓", "→"
ARROWS = (UP, DOWN, SAME)

_MIN_CHANGE = 0.02
"""Smaller differences, as a share of the value before, are within the error of most tests."""


def arrow(new: float, old: float) -> str:
    """Return ↑ or ↓; → for the same value and for a difference under 2 %."""
    if abs(new - old) < _MIN_CHANGE * abs(old) or new == old:
        return SAME
    return UP if new > old else DOWN
