"""The settings of the pipelines for subtask 4 (what an answer rests on).

Those for subtask 1 have none; subtasks 2 and 3 share the pipelines of ArchEHR-QA 2025.
"""

from archqa.tasks.settings import PipelineSettings


class AlignmentSettings(PipelineSettings):
    """Subtask 4."""

    fallback: bool = True
    """let the engine link the answer where no model could"""


PIPELINE_SETTINGS: dict[str, type[PipelineSettings]] = {
    "dmis": AlignmentSettings,
    "embedded": AlignmentSettings,
}
