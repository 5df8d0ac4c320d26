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

    labels: LabelScheme = "binary"
    """labels of a sentence: two, or three with supplementary"""

    context: bool = True
    """whether the medical context is written first"""

    experts: bool = True
    """whether specialists are recruited"""

    most_experts: int = Field(default=2, ge=1, le=20)
    """specialists at most"""

    strategy: Strategy = "cited"
    """what is submitted as the answer"""

    word_limit: int = Field(default=WORD_LIMIT, ge=10)
    """words of an answer at most"""

    fallback: bool = True
    """let the engine decide where the deciding model cannot, with a remark"""

    screen: Literal["per-sentence", "batched"] = "per-sentence"
    """sentences a call of the general expert judges"""

    batch_size: int = Field(default=8, ge=1)
    """sentences of a batch (screen=batched)"""


class EmbeddedSettings(DmisSettings):
    """The six stages by the embedded engine, which was chosen with up to four specialists."""

    most_experts: int = Field(default=4, ge=1, le=20)
    """specialists at most"""

    operating_point: OperatingPoint = "f1"
    """what the engine favours in its selection of evidence"""


PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "dmis": DmisSettings,
    "embedded": EmbeddedSettings,
}
