"""The settings of the panel: who votes, how votes are weighed, and which sentences are selected."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from archqa.core.value import FrozenModel

OperatingPoint = Literal["f1", "precision", "recall"]


class PanelSettings(FrozenModel):
    """The panel's own settings; `operating_point` is used by the six stages as well."""

    answers: int = Field(
        default=0,
        ge=0,
        le=9,
        description="cited answers that answer_first writes, each in a call of its own, as one more voter",
    )
    repetitions: int = Field(
        default=1,
        ge=1,
        le=20,
        description="times each judge of the panel is asked",
    )
    engine_vote: bool = Field(
        default=False, description="whether the embedded engine is one more voter of the panel"
    )
    interpret: bool = Field(
        default=False,
        description="say what the message asks (subtask 1) also where the clinician's question is given",
    )
    verify: bool = Field(
        default=False, description="whether narrow choices of the panel are looked at again"
    )
    margin: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="distance from the threshold, as a probability, that counts as narrow",
    )
    operating_point: OperatingPoint = Field(
        default="f1", description="what the selection of evidence favours"
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="take what is likelier than this, instead of the best expected F",
    )
    voters: str = Field(
        default="",
        description="whose votes count, with commas: roles, models or both; all if empty",
    )
    combiner: Path | None = Field(
        default=None, description="how votes are weighed, as `archqa calibrate` fitted it"
    )
    exemplars: Path | None = Field(
        default=None, description="cases with a key beside them, shown as worked examples"
    )
    shots: int = Field(default=3, ge=1, le=20, description="worked examples shown with a case")
