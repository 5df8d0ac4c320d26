"""A linear axis with round ticks, used by every figure of the report."""

import math
from typing import NamedTuple

_ROUNDING_TOLERANCE = 1e-9


class Tick(NamedTuple):
    """A labelled position on an axis, in units of the drawing."""

    position: float
    label: str


class Axis(NamedTuple):
    """Maps values from `low` to `high` to drawing positions from `start` to `end`.

    `start` may be larger than `end`, as on a vertical axis.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        span = self.high - self.low
        fraction = 0.5 if span == 0 else (value - self.low) / span
        return round(self.start + fraction * (self.end - self.start), 2)

    def ticks(self, max_ticks: int = 5) -> tuple[Tick, ...]:
        """Return at most `max_ticks` round values within the axis."""
        step = nice_step(self.high - self.low, max_ticks)
        lowest = math.ceil(self.low / step - _ROUNDING_TOLERANCE)
        highest = math.floor(self.high / step + _ROUNDING_TOLERANCE)
        return tuple(
            Tick(self(multiple * step), f"{multiple * step:g}")
            for multiple in range(lowest, highest + 1)
        )


def nice_step(span: float, max_ticks: int) -> float:
    """Return the smallest 1, 2, 2.5 or 5 times a power of ten that needs at most `max_ticks`."""
    if span <= 0:
        return 1.0
    min_step = span / max(max_ticks - 1, 1)
    power = 10.0 ** math.floor(math.log10(min_step))
    for factor in (1, 2, 2.5, 5):
        if power * factor >= min_step * (1 - _ROUNDING_TOLERANCE):
            return power * factor
    return power * 10
