"""Whether an answer needs a sentence, as judged by a person or an agent."""

from enum import StrEnum

from pydantic import Field

from archqa.core.value import FrozenModel


class Relevance(StrEnum):
    """The three labels of the shared task (ArchEHR-QA 2025 key); the binary variant has no
    `SUPPLEMENTARY`.
    """

    ESSENTIAL = "essential"
    SUPPLEMENTARY = "supplementary"
    NOT_RELEVANT = "not-relevant"


class Judgement(FrozenModel):
    """One agent's label for one sentence, and why."""

    sentence_id: str
    label: Relevance
    rationale: str = ""
    probability: float | None = Field(
        default=None, ge=0, le=1, description="of being essential, where known"
    )
