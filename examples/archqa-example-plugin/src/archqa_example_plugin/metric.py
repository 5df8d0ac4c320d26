"""A metric: a frozen dataclass that counts each case; the score is of the summed counts."""

from dataclasses import dataclass
from typing import Any

from scoring import Metric, TextSample


@dataclass(frozen=True, kw_only=True)
class WordsPerLine(Metric[TextSample]):
    """Words in a line of the answer, on average; lines shorter than `shortest` words do not count."""

    name = "words_per_line"
    shortest: int = 1

    @property
    def width(self) -> int:
        """Words, and lines."""
        return 2

    def tally(self, case: TextSample) -> tuple[float, ...]:
        """The words and the lines of one answer."""
        lengths = [len(line.split()) for line in case.prediction.splitlines()]
        counted = [length for length in lengths if length >= self.shortest]
        return float(sum(counted)), float(len(counted))

    def value(self, total: Any) -> Any:
        """Words by lines, 0 where there are no lines."""
        return total[..., 0] / total[..., 1].clip(min=1)
