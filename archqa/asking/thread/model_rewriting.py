"""A model says what a follow-up refers to, where the rules do not."""

from typing import TYPE_CHECKING, NamedTuple

from archqa.agents.follow_up import AskedTurn, FollowUpAgent, FollowUpTask
from archqa.asking.question import AskOptions, ModelBackends
from archqa.asking.thread import Thread
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.tasks.pipeline import Pipeline, PipelineResult
from archqa.tasks.settings import PipelineSettings

if TYPE_CHECKING:
    from archqa.agents.agent import RunContext

_TURNS_SHOWN = 3
_LINES_SHOWN = 10


class Rewriting(NamedTuple):
    """The standalone question (None if it is unclear), and what the calls have used."""

    question: str | None
    usage: Usage


class FollowUpSettings(PipelineSettings):
    """The settings of understanding a follow-up: there are none but those of its agent."""


async def _run(
    task: FollowUpTask, context: "RunContext", _: FollowUpSettings
) -> PipelineResult:
    await FollowUpAgent().run(task, context)
    return PipelineResult()


FOLLOW_UP_MODEL = Pipeline(
    name="follow-up-model",
    summary="asking in a thread: a follow-up question rewritten by a model to stand by itself",
    backend="model",
    run=_run,
    prompts=(FollowUpAgent.prompt,),
    agents=(FollowUpAgent.name,),
    settings_type=FollowUpSettings,
)


async def rewrite_by_model(
    question: str, thread: Thread, options: AskOptions
) -> Rewriting:
    """Return the question as a model understands it. Raises `CaseFailed` and `ModelError`."""
    models = ModelBackends(options)
    backends = models.open(FOLLOW_UP_MODEL)
    usages: list[Usage] = []

    def on_step(step: Step) -> None:
        usages.append(step.usage)
        options.on_step(step)

    turns = []
    for turn in thread.turns[-_TURNS_SHOWN:]:
        lines = tuple(line.text for line in turn.lines[:_LINES_SHOWN])
        turns.append(
            AskedTurn(question=turn.understood, status=turn.status.value, lines=lines)
        )
    task = FollowUpTask(question=question, turns=tuple(turns))
    try:
        output = await FollowUpAgent().run(task, backends.context(on_step))
    finally:
        await models.close()
    known = {"rewritten": " ".join(output.question.split()), "new_subject": question}
    return Rewriting(known.get(output.kind), sum_usage(usages))
