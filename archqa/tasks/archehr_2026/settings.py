"""The settings of the pipelines for subtasks 1 (what is asked) and 4 (what an answer rests on)."""

from pydantic import Field

from archqa.tasks.pipeline_settings import PipelineSettings


class AlignmentSettings(PipelineSettings):
    """Subtask 4."""

    fallback: bool = Field(
        default=True, description="let the engine link the answer where no model could"
    )


QUESTION_PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "panel": PipelineSettings,
    "embedded": PipelineSettings,
}
ALIGNMENT_PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "panel": AlignmentSettings,
    "embedded": AlignmentSettings,
}
