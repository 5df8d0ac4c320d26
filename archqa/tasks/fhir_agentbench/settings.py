"""The settings of the pipelines that answer questions about a FHIR record."""

from typing import Literal

from pydantic import Field

from archqa.tasks.settings import PipelineSettings

Conventions = Literal["mimic-ehrsql", "clinical"]
"""What 'current visit', 'since' and names mean in a question."""


class TypedQuerySettings(PipelineSettings):
    """The pipelines with a typed query: `planner` and `embedded`."""

    planner_turns: int = Field(default=6, ge=1, le=50)
    """turns in which the planner must find its query"""

    most_queries: int = Field(default=1, ge=1, le=3)
    """queries that the planner may write for one question"""

    conventions: Conventions | None = None
    """what 'current visit', 'since' and names mean; default: the task's conventions"""

    fallback: bool = True
    """let the parser write the query where the planner fails"""


class ReadingCheckSettings(PipelineSettings):
    """Questions of `archqa ask` to a record where a model is set up."""

    grammar: Literal["first", "propose", "off"] = Field(
        default="propose",
        description="first: a model reads only what the grammar cannot; propose: it confirms or "
        "replaces what the grammar reads; off: it reads every question",
    )


class PublishedAgentSettings(PipelineSettings):
    """All five agents of FHIR-AgentBench."""

    official: bool = True
    """keep the quirks of the benchmark's agents (published_agents.py)"""

    context_limit: int = Field(default=32_000, ge=1000)
    """tokens of a prompt, estimated: characters / 4"""


class CodeAgentSettings(PublishedAgentSettings):
    """Agents that run a model's code."""

    code_seconds: float = Field(default=30.0, gt=0, le=600)
    """seconds that one piece of a model's code may run"""

    code_memory_mib: int = Field(default=512, ge=16)
    """MiB that one piece of a model's code may use"""


class MultiTurnSettings(PublishedAgentSettings):
    """Agents of several turns."""

    iterations: int = Field(default=30, ge=1, le=500)
    """turns of a multi-turn agent for one question"""


class MultiTurnCodeSettings(MultiTurnSettings, CodeAgentSettings):
    """The agent of several turns that runs code."""


PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "reading-check": ReadingCheckSettings,
    "planner": TypedQuerySettings,
    "embedded": TypedQuerySettings,
    "single-turn-request": PublishedAgentSettings,
    "single-turn-retriever": PublishedAgentSettings,
    "single-turn-retriever-code": CodeAgentSettings,
    "multi-turn-retriever": MultiTurnSettings,
    "multi-turn-retriever-code": MultiTurnCodeSettings,
    "no-answer": PipelineSettings,
    "retrieve-all": PipelineSettings,
}
