"""What the text metrics compare, and what they have in common: a score for each case, averaged over the cases."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from .metric import FloatArray, Metric, ratio


class TextSample(NamedTuple):
    """One answer, the reference that it should say, and the source that it answers (SARI's and the overlap's)."""

    prediction: str
    reference: str
    source: str = ""


ReferenceKind = Literal["question+essential", "essential", "clinician_question", "clinician_answer"]


@dataclass(frozen=True, kw_only=True)
class TextMetric(Metric[TextSample]):
    """A mean over cases of a score of texts (0 to 100 when good).

    `against` names the reference that the task must hand over, `order` how the essential sentences in it are ordered
    (`note`, or `hash:SEED` as published; `-` where there is no choice). An empty prediction gets the metric's
    `floor`, unasked.
    """

    floor: ClassVar[float] = 0.0
    against: ReferenceKind = "question+essential"
    order: str = "note"

    @property
    def width(self) -> int:
        """The case's score and a one."""
        return 2

    @abstractmethod
    def score(self, case: TextSample) -> float:
        """The score of one case with a prediction, on the leaderboard's scale."""

    def tally(self, case: TextSample) -> tuple[float, ...]:
        """(score of the case, 1)."""
        return (self.score(case) if case.prediction.strip() else self.floor), 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """The mean score of the cases."""
        return ratio(total[..., 0], total[..., 1])
