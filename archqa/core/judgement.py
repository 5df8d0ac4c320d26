"""What somebody, a person or a mind, holds of one sentence: does the answer need it?"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from pydantic import Field

from archqa.core.value import Value


class Relevance(StrEnum):
    """The shared task's three labels (ArchEHR-QA 2025 key). A binary agent uses the first and the last."""

    ESSENTIAL = "essential"
    SUPPLEMENTARY = "supplementary"
    NOT_RELEVANT = "not-relevant"


class Judgement(Value):
    """One agent's label for one sentence, and why."""

    sentence_id: str
    label: Relevance
    rationale: str = ""
    probability: float | None = Field(default=None, ge=0, le=1, description="of being essential, where known")


def pooled(judgements: Mapping[str, Iterable[Judgement]]) -> dict[str, float]:
    """Sentence id to the mean probability its judges state; a bare label counts as 1 or 0, supplementary as a half."""
    stated: dict[str, list[float]] = {}
    for judged in judgements.values():
        for each in judged:
            stated.setdefault(each.sentence_id, []).append(_stated(each))
    return {sentence: sum(values) / len(values) for sentence, values in stated.items()}


def _stated(judgement: Judgement) -> float:
    if judgement.probability is not None:
        return judgement.probability
    return {Relevance.ESSENTIAL: 1.0, Relevance.SUPPLEMENTARY: 0.5}.get(judgement.label, 0.0)
