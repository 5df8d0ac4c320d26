"""Whether an answer needs a sentence, as judged by a person or an agent."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from archqa.core.value import FrozenModel

LabelScheme = Literal["binary", "multiclass"]
"""The paper's two variants (Table 1): essential / not-relevant, or with supplementary between them."""


class Relevance(StrEnum):
    # This docstring is part of the JSON schema sent to models, and so of the cache key.
    """The shared task's three labels (ArchEHR-QA 2025 key). A binary agent uses the first and the last."""

    ESSENTIAL = "essential"
    SUPPLEMENTARY = "supplementary"
    NOT_RELEVANT = "not-relevant"


class Judgement(FrozenModel):
    """One agent's label for one sentence, and why."""

    sentence_id: str
    label: Relevance
    rationale: str = ""
    probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="of being essential, where known",
    )
