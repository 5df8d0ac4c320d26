"""Numbers become places on paper: a linear axis and its round ticks. Every figure of the room is drawn with it."""

import math
from typing import NamedTuple


class Tick(NamedTuple):
    """A labelled place on an axis."""

    at: float
    label: str


class Axis(NamedTuple):
    """Values from `low` to `high`, drawn from `start` to `end` (either may be the larger). Units of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value lies."""
        span = self.high - self.low
        share = 0.5 if span == 0 else (value - self.low) / span
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, most: int = 5) -> tuple[Tick, ...]:
        """At most so many round values within the axis."""
        step = nice_step(self.high - self.low, most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(Tick(self(each * step), f"{each * step:g}") for each in range(first, last + 1))


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that parts a span into at most `most` - 1 pieces."""
    if span <= 0:
        return 1.0
    rough = span / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * (1 - 1e-9))
