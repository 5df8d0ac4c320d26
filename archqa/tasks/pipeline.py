"""The contract of the room: a pipeline takes a case to a desk and comes back with an outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal, NamedTuple, TypeVar, cast

from archqa.agents.agent import RunContext
from archqa.core.answer import CitedAnswer
from archqa.core.judgement import Judgement
from archqa.core.result import TaskResult
from archqa.core.value import FrozenModel
from archqa.llm.batch import ReplyPending
from archqa.tasks.pipeline_inputs import PipelineInputs
from archqa.tasks.pipeline_settings import PipelineSettings

__all__ = [
    "NoteResult",
    "Pipeline",
    "PipelineFunction",
    "PipelineResult",
    "PipelineSettings",
    "in_parallel",
]

Result = TypeVar("Result")


class PipelineResult(FrozenModel):
    """What a pipeline made of one item. `remarks` tell what failed on the way and how it was made good.

    `result` holds what the task's own submission has beside, or instead of, a cited answer.
    """

    result: TaskResult | None = None
    remarks: tuple[str, ...] = ()


class NoteResult(PipelineResult):
    """What a pipeline made of a case: the cited answer, and every judgement on the way to it."""

    answer: CitedAnswer
    essential: tuple[str, ...]
    judgements: dict[str, tuple[Judgement, ...]] = {}
    context: str = ""
    experts: tuple[str, ...] = ()


PipelineFunction = Callable[[Any, RunContext, Any], Awaitable[PipelineResult]]
"""Takes an item through its agents. The settings are of the pipeline's `settings_type`."""


def _no_inputs(_settings: PipelineSettings) -> PipelineInputs:
    """The cases are all that most pipelines read."""
    return PipelineInputs()


class Pipeline(NamedTuple):
    """A named arrangement of agents and the kind of backend that performs them unless settings say otherwise.

    `ways` is the FHIR profile it expects of a record in a file; `several` names the agents that several models may
    perform side by side. `needs_record` is off where a task of a record is done without looking at it.
    `inputs` checks the files that the pipeline reads besides the cases.
    """

    name: str
    summary: str
    mind: Literal["model", "embedded", "script"]
    run: PipelineFunction
    prompts: tuple[str, ...]
    agents: tuple[str, ...]
    settings_type: type[PipelineSettings]
    ways: str = "archqa"
    multi_model_agents: tuple[str, ...] = ()
    needs_record: bool = True
    reads_notes: bool = True
    inputs: Callable[[Any], PipelineInputs] = _no_inputs

    @property
    def reads_record(self) -> bool:
        """Whether it cannot do without a FHIR record."""
        return self.needs_record and not self.reads_notes


async def in_parallel(*steps: Coroutine[Any, Any, Result]) -> list[Result]:
    """Run steps side by side; results in the order given. The first failure ends the others and is raised itself.

    A step that must wait for the next batch ends nobody: the others' requests belong into the same file.
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
