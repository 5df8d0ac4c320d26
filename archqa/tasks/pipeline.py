"""The contract of pipelines: a function from a case and a run context to a result."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, cast

from archqa.agents.agent import Agent, RunContext
from archqa.core.answer import CitedAnswer
from archqa.core.judgement import Judgement
from archqa.core.result import TaskResult
from archqa.core.value import FrozenModel
from archqa.llm.batch import ReplyPending
from archqa.tasks.settings import PipelineSettings

__all__ = [
    "NoteResult",
    "Pipeline",
    "PipelineFunction",
    "PipelineInputs",
    "PipelineResult",
    "PipelineSettings",
    "in_parallel",
]

Result = TypeVar("Result")


class PipelineInputs(NamedTuple):
    """Fingerprints of the files that a pipeline reads, by setting, and remarks on the whole run."""

    sha256: Mapping[str, str] = MappingProxyType({})
    remarks: tuple[str, ...] = ()


class PipelineResult(FrozenModel):
    """The result of a pipeline for one case. `remarks` say which steps failed and what replaced them.

    `result` is the task's own result, besides or instead of a cited answer.
    """

    result: TaskResult | None = None
    remarks: tuple[str, ...] = ()


class NoteResult(PipelineResult):
    """The result of a pipeline over a note: the cited answer and every judgement."""

    answer: CitedAnswer
    essential: tuple[str, ...]
    judgements: dict[str, tuple[Judgement, ...]] = {}
    context: str = ""
    experts: tuple[str, ...] = ()


PipelineFunction = Callable[[Any, RunContext, Any], Awaitable[PipelineResult]]
"""Takes an item through its agents. The settings are of the pipeline's `settings_type`."""


class Pipeline(NamedTuple):
    """A named arrangement of agents and the kind of backend that runs them unless settings say otherwise.

    `fhir_profile` is the profile it expects of a record in a file. `needs_record` is off where a task
    of a record is done without looking at it. `inputs` checks the files that the pipeline reads besides
    the cases. `tasks` names what a plug-in's pipeline can do; archqa's tasks list their own.
    """

    name: str
    summary: str
    backend: Literal["model", "embedded", "script"]
    run: PipelineFunction
    prompts: tuple[str, ...]
    agents: tuple[str, ...]
    settings_type: type[PipelineSettings]
    fhir_profile: str = "archqa"
    needs_record: bool = True
    reads_notes: bool = True
    inputs: Callable[[Any], PipelineInputs] = lambda _: PipelineInputs()
    tasks: tuple[str, ...] = ()

    @property
    def reads_record(self) -> bool:
        """Whether it cannot do without a FHIR record."""
        return self.needs_record and not self.reads_notes


async def _runs_no_case(*_: object) -> PipelineResult:
    raise NotImplementedError("These agents are run by a question, not by cases.")


def agents_of_questions(
    name: str,
    summary: str,
    *agents: type[Agent[Any, Any]],
    settings_type: type[PipelineSettings] = PipelineSettings,
) -> Pipeline:
    """Agents that a model runs for questions: their settings and backends, without a run of cases."""
    return Pipeline(
        name=name,
        summary=summary,
        backend="model",
        run=_runs_no_case,
        prompts=tuple(agent.prompt for agent in agents),
        agents=tuple(agent.name for agent in agents),
        settings_type=settings_type,
    )


async def in_parallel(*steps: Coroutine[Any, Any, Result]) -> list[Result]:
    """Run steps concurrently; results are in the order of the steps. The first failure cancels the others.

    A step that waits for the next batch cancels nothing: the others' requests belong in the same file.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_or_pending(step)) for step in steps]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    results = [task.result() for task in tasks]
    for result in results:
        if isinstance(result, ReplyPending):
            raise result
    return cast("list[Result]", results)


async def _or_pending(step: Coroutine[Any, Any, Result]) -> Result | ReplyPending:
    try:
        return await step
    except ReplyPending as pending:
        return pending
