"""The pipeline of the task: it holds a statement to be false if it has one of some words."""

from archqa.agents import RunContext
from archqa.core.question import RecordQuestion
from archqa.tasks.pipeline import Pipeline, PipelineResult, PipelineSettings
from archqa_example_plugin.true_or_false.task import Judged


class DoubtSettings(PipelineSettings):
    """The settings of `doubt`: `--set doubtful=never`."""

    doubtful: str = "always,never"


async def doubt(
    statement: RecordQuestion, context: RunContext, settings: DoubtSettings
) -> PipelineResult:
    """Whether the statement has none of the doubtful words."""
    words = set(statement.question.lower().split())
    return PipelineResult(
        result=Judged(is_true=words.isdisjoint(settings.doubtful.split(",")))
    )


PIPELINES = (
    Pipeline(
        name="doubt",
        summary="doubts what is said to be always or never so",
        backend="embedded",
        run=doubt,
        prompts=(),
        agents=(),
        settings_type=DoubtSettings,
        needs_record=False,
        reads_notes=False,
    ),
)
