"""A pipeline: an async function from a case to its result, and what archqa must know of it."""

from pydantic import Field

from archqa.agents import CaseTask, RunContext
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.tasks.pipeline import NoteResult, Pipeline, PipelineSettings
from archqa_example_plugin.agent import PlainAnswerAgent


class PlainSettings(PipelineSettings):
    """The settings of `plain`: `--set answer_words=20`."""

    answer_words: int = Field(
        default=40, ge=1, description="words of the answer at most"
    )


async def answer_plainly(
    case: Case, context: RunContext, settings: PlainSettings
) -> NoteResult:
    """One agent, one cited line."""
    output = await PlainAnswerAgent().run(CaseTask(case=case), context)
    words = output.answer.split()[: settings.answer_words]
    claim = Claim(text=" ".join(words), citations=(output.sentence_id,))
    return NoteResult(
        answer=CitedAnswer(claims=(claim,)), essential=(output.sentence_id,)
    )


PLAIN = Pipeline(
    name="plain",
    summary="one sentence that rests on one sentence of the note",
    backend="model",
    run=answer_plainly,
    prompts=("plain_answer/v1",),
    agents=("plain_answer",),
    settings_type=PlainSettings,
    tasks=("archehr-2025",),
)
