"""The settings of the pipelines in which an agent may write to a record (MedAgentBench)."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from archqa.core.write_mode import WriteMode
from archqa.tasks.settings import PipelineSettings

MAX_ROUNDS = 8
"""Turns of an agent in the benchmark's shipped configuration."""


class PayloadFormat(StrEnum):
    """The form of a payload: as the benchmark's grader expects it, or FHIR R4."""

    BENCHMARK = "benchmark"
    R4 = "r4"


class ClinicalSettings(PipelineSettings):
    """Every pipeline of MedAgentBench but `do-nothing`."""

    writes: WriteMode = WriteMode.RECORD
    """read-only; record (nothing is stored); validate; or apply, which stores"""

    rounds: int = Field(default=MAX_ROUNDS, ge=1, le=100)
    """turns of an agent for one task"""

    @property
    def writes_to_record(self) -> bool:
        """Whether writes are stored."""
        return self.writes is WriteMode.APPLY


class PaperAgentSettings(ClinicalSettings):
    """The pipeline `paper`."""

    functions: Path | None = None
    """the benchmark's own function file, shown to the agent"""


class TypedAgentSettings(ClinicalSettings):
    """The pipeline `typed`."""

    shape: PayloadFormat | None = None
    """benchmark or r4; default: benchmark where writes are only recorded, else r4"""


PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "paper": PaperAgentSettings,
    "typed": TypedAgentSettings,
    "do-nothing": PipelineSettings,
}
