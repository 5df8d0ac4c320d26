"""The pipelines from a note to a cited answer."""

from archqa.tasks.archehr_2025.pipelines.dmis import AGENTS, PROMPTS, dmis
from archqa.tasks.archehr_2025.settings import DmisSettings, EmbeddedSettings
from archqa.tasks.pipeline import Pipeline

CITED_ANSWER_PIPELINES = (
    Pipeline(
        name="dmis",
        summary="the six stages of DMIS Lab (ArchEHR-QA 2025), performed by a model",
        backend="model",
        run=dmis,
        prompts=PROMPTS,
        agents=AGENTS,
        settings_type=DmisSettings,
    ),
    Pipeline(
        name="embedded",
        summary="the same stages, performed by the engine inside archqa",
        backend="embedded",
        run=dmis,
        prompts=PROMPTS,
        agents=AGENTS,
        settings_type=EmbeddedSettings,
    ),
)
