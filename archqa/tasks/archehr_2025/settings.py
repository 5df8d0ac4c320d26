"""The settings of the pipelines that answer from the sentences of a note."""

from typing import Literal

from pydantic import Field

from archqa.core.answer import WORD_LIMIT
from archqa.core.judgement import LabelScheme
from archqa.tasks.settings import PipelineSettings

Strategy = Literal["cited", "evidence", "summary"]
"""What is submitted: the decision's answer; the questions and the selected sentences; or a summary of these."""

OperatingPoint = Literal["f1", "precision", "recall"]


class DmisSettings(PipelineSettings):
    """The six stages, by a model (`dmis`); the defaults are the paper's best row (Table 1, last)."""

    labels: LabelScheme = Field(
        default="binary",
        description="labels of a sentence: two, or three with supplementary",
    )
    context: bool = Field(
        default=True, description="whether the medical context is written first"
    )
    experts: bool = Field(default=True, description="whether specialists are recruited")
    most_experts: int = Field(default=2, ge=1, le=20, description="specialists at most")
    strategy: Strategy = Field(
        default="cited", description="what is submitted as the answer"
    )
    word_limit: int = Field(
        default=WORD_LIMIT, ge=10, description="words of an answer at most"
    )
    fallback: bool = Field(
        default=True,
        description="let the engine decide where the deciding model cannot, with a remark",
    )
    screen: Literal["per-sentence", "batched"] = Field(
        default="per-sentence",
        description="sentences a call of the general expert judges",
    )
    batch_size: int = Field(
        default=8, ge=1, description="sentences of a batch (screen=batched)"
    )


class EmbeddedSettings(DmisSettings):
    """The six stages by the embedded engine, which was chosen with up to four specialists."""

    most_experts: int = Field(default=4, ge=1, le=20, description="specialists at most")
    operating_point: OperatingPoint = Field(
        default="f1", description="what the engine favours in its selection of evidence"
    )


PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "dmis": DmisSettings,
    "embedded": EmbeddedSettings,
}
