"""What can be switched where an agent may write to a record."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from archqa.core.value import Value
from archqa.fhir.writing import Mode
from archqa.tools.clinical_protocol import ROUNDS
from archqa.tools.clinical_writes import Shape


class ClinicalSettings(Value):
    """MedAgentBench: what becomes of writes, in which shape, in how many turns, with which corrections."""

    writes: Mode = Field(
        default=Mode.RECORD, description="read-only; record (nothing is stored); validate; or apply, which stores"
    )
    shape: Shape | None = Field(
        default=None, description="benchmark or r4; None: benchmark where writes are recorded only, else r4"
    )
    rounds: int = Field(default=ROUNDS, ge=1, le=100, description="turns of an agent of MedAgentBench")
    memory: Path | None = Field(default=None, description="a file of corrections, for the typed agent")

    @model_validator(mode="after")
    def _no_memory_in_the_benchmark(self) -> Self:
        if self.memory is not None and self.writes is Mode.RECORD:
            raise ValueError("memory is off in the benchmark's mode; choose writes=validate or writes=apply")
        return self
