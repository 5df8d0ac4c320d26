"""The settings types of all pipelines, by pipeline name.

The `settings` module next to the module of a `Task` states those of its pipelines as
`PIPELINE_SETTINGS`: pipeline name → settings type. No pipeline is imported, and these modules import
little else than pydantic, so that loading settings is cheap. Those of plug-ins are added when the
settings name something that only they can have.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from pydantic import Field, create_model

from archqa import plug_ins
from archqa.core.value import DescribedModel, FrozenModel
from archqa.tasks import registry


class PipelineSettings(DescribedModel):
    """The settings of a pipeline; this base is for pipelines that have none."""

    @property
    def writes_to_record(self) -> bool:
        """Whether the pipeline stores anything in the FHIR record."""
        return False


Sections = Mapping[str, type[PipelineSettings]]
"""Pipeline name → type of its section of the settings."""

PlugInSections = tuple[tuple[str, type[PipelineSettings]], ...]


_of_plug_ins: dict[str, type[PipelineSettings]] = {}
"""The sections of plug-ins' pipelines that this process has used."""


def pipeline_sections() -> Sections:
    """The sections `pipelines.<name>` of all registered tasks; pipelines without settings have none.

    Pipelines of several tasks that share a name share a section, which has the settings of all.
    """
    return _sections(registry.paths(), tuple(_of_plug_ins.items()))


def sections_model() -> type[FrozenModel]:
    """A model with one field for every section, each with its defaults."""
    return _sections_model(registry.paths(), tuple(_of_plug_ins.items()))


def use_plug_in(pipeline: str) -> None:
    """Add the section of a plug-in's pipeline, if there is a plug-in of that name.

    Raises `PlugInError` for one that cannot be used.
    """
    if pipeline in pipeline_sections() or plug_ins.find("pipelines", pipeline) is None:
        return
    from archqa.tasks.pipelines import find_plug_in  # Pipelines are slow to import.

    plug_in = find_plug_in(pipeline)
    if plug_in is not None:
        _add(plug_in.name, plug_in.settings_type)


def use_all_plug_ins() -> None:
    """Add the sections of all plug-ins' pipelines, and of the pipelines of plug-ins' tasks."""
    if not (plug_ins.installed("pipelines") or plug_ins.installed("tasks")):
        return
    from archqa.tasks.pipelines import all_pipelines

    for pipeline in all_pipelines():
        if pipeline.name not in pipeline_sections():
            _add(pipeline.name, pipeline.settings_type)


def _add(pipeline: str, settings_type: type[PipelineSettings]) -> None:
    if settings_type.model_fields:
        _of_plug_ins[pipeline] = settings_type


@cache
def _sections(task_paths: tuple[str, ...], of_plug_ins: PlugInSections) -> Sections:
    """The sections of plug-ins and of tasks; `toy.task:TOY` has its settings in `toy.settings`."""
    types_by_pipeline: dict[str, dict[type[PipelineSettings], None]] = {}
    for path in task_paths:
        task_module, _, _ = path.partition(":")
        module = f"{task_module.rpartition('.')[0]}.settings"
        if find_spec(module) is None:
            continue  # None of the task's pipelines has settings of its own.
        for pipeline, settings_type in import_module(module).PIPELINE_SETTINGS.items():
            if settings_type.model_fields:
                types_by_pipeline.setdefault(pipeline, {})[settings_type] = None
    sections = dict(of_plug_ins)
    for pipeline, types in types_by_pipeline.items():
        [section, *others] = types
        sections[pipeline] = section
        if others:
            name = f"{pipeline.title()}Section"
            sections[pipeline] = create_model(name, __base__=tuple(types))
    return MappingProxyType(sections)


@cache
def _sections_model(
    task_paths: tuple[str, ...], of_plug_ins: PlugInSections
) -> type[FrozenModel]:
    fields: dict[str, Any] = {}
    for pipeline, section in _sections(task_paths, of_plug_ins).items():
        fields[pipeline] = (section, Field(default_factory=section))
    model: type[FrozenModel] = create_model(
        "PipelineSections", __base__=FrozenModel, **fields
    )
    return model
