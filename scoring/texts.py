"""The input of the text metrics, and their base class: a score per case, averaged over the cases."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from .metric import FloatArray, Metric, ratio


class TextSample(NamedTuple):
    """An answer, its reference, and its source (the question; used by SARI and question overlap)."""

    prediction: str
    reference: str
    source: str = ""


ReferenceKind = Literal["question+essential", "essential", "clinician_question", "clinician_answer"]


@dataclass(frozen=True, kw_only=True)
class TextMetric(Metric[TextSample]):
    """The mean over cases of a score of texts, on a scale from 0 to 100.

    `against` names the reference that the task must provide, `order` the order of the essential
    sentences in it (`note`, or `hash:SEED` as published; `-` where there is no choice). An empty
    prediction gets the metric's `floor` and is not scored.
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
        if not case.prediction.strip():
            return self.floor, 1.0
        return self.score(case), 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """The mean score of the cases."""
        return ratio(total[..., 0], total[..., 1])
