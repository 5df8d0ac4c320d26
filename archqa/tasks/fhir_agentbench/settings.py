"""What can be switched where a question is asked of a FHIR record."""

from typing import Literal

from pydantic import Field

from archqa.core.value import FrozenModel


class RecordSettings(FrozenModel):
    """FHIR-AgentBench's five agents, the planner, and what words mean to the executor."""

    official: bool = Field(
        default=True,
        description="the five agents keep the benchmark's quirks (archqa/tasks/fhir_agentbench/pipelines/published_agents.py)",
    )
    iterations: int = Field(
        default=30, ge=1, le=500, description="turns of a multi-turn agent of a record"
    )
    context_limit: int = Field(
        default=32_000, ge=1000, description="tokens of a prompt, estimated: characters / 4"
    )
    planner_turns: int = Field(
        default=6, ge=1, le=50, description="turns in which the planner must find its query"
    )
    conventions: Literal["mimic-ehrsql", "clinical"] | None = Field(
        default=None,
        description="what 'current visit', 'since' and names mean; None: as the task has it",
    )
    code_seconds: float = Field(
        default=30.0, gt=0, le=600, description="for one piece of a model's code"
    )
    code_memory_mib: int = Field(default=512, ge=16, description="for one piece of a model's code")
