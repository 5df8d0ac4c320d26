"""The settings types of all pipelines by pipeline name. Imports no pipeline, so that loading settings is cheap."""

from pydantic import create_model

from archqa.tasks.archehr_2025 import settings as archehr_2025
from archqa.tasks.archehr_2026 import settings as archehr_2026
from archqa.tasks.fhir_agentbench import settings as fhir_agentbench
from archqa.tasks.medagentbench import settings as medagentbench
from archqa.tasks.pipeline_settings import PipelineSettings

_BY_TASK = (
    archehr_2025.PIPELINE_SETTINGS,
    archehr_2026.QUESTION_PIPELINE_SETTINGS,
    archehr_2026.ALIGNMENT_PIPELINE_SETTINGS,
    fhir_agentbench.PIPELINE_SETTINGS,
    medagentbench.PIPELINE_SETTINGS,
)


def _sections() -> dict[str, type[PipelineSettings]]:
    """One type a pipeline name, with the settings of all pipelines of that name."""
    types: dict[str, list[type[PipelineSettings]]] = {}
    for settings_types in _BY_TASK:
        for name, settings_type in settings_types.items():
            types.setdefault(name, []).append(settings_type)
    return {name: _combined(name, settings_types) for name, settings_types in types.items()}


def _combined(name: str, types: list[type[PipelineSettings]]) -> type[PipelineSettings]:
    bases = tuple(dict.fromkeys(base for base in types if base.model_fields))
    if not bases:
        return PipelineSettings
    if len(bases) == 1:
        return bases[0]
    return create_model(f"{name.title()}Section", __base__=bases)


PIPELINE_SECTIONS = {name: section for name, section in _sections().items() if section.model_fields}
"""Pipeline name to the settings of `pipelines.<name>`; pipelines without settings are left out."""
