"""What can be switched where an agent may write to a record."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from archqa.core.value import FrozenModel
from archqa.fhir.write.writer import WriteMode
from archqa.tasks.medagentbench.protocol import MAX_ROUNDS
from archqa.tasks.medagentbench.write_intents import PayloadFormat


class ClinicalSettings(FrozenModel):
    """MedAgentBench: what becomes of writes, in which shape, in how many turns, with which corrections."""

    writes: WriteMode = Field(
        default=WriteMode.RECORD,
        description="read-only; record (nothing is stored); validate; or apply, which stores",
    )
    shape: PayloadFormat | None = Field(
        default=None,
        description="benchmark or r4; None: benchmark where writes are recorded only, else r4",
    )
    rounds: int = Field(
        default=MAX_ROUNDS, ge=1, le=100, description="turns of an agent of MedAgentBench"
    )
    functions: Path | None = Field(
        default=None, description="the benchmark's own function file, for the pipeline paper"
    )
    memory: Path | None = Field(
        default=None, description="a file of corrections, for the typed agent"
    )

    @model_validator(mode="after")
    def _no_memory_in_the_benchmark(self) -> Self:
        if self.memory is not None and self.writes is WriteMode.RECORD:
            raise ValueError(
                "memory is off in the benchmark's mode; choose writes=validate or writes=apply"
            )
        return self
