"""The settings types of all pipelines, by pipeline name.

The `settings` module next to the module of a `Task` states those of its pipelines as
`PIPELINE_SETTINGS`: pipeline name → settings type. No pipeline is imported, so that loading settings
is cheap. Those of plug-ins are added when the settings name something that only they can have.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from pydantic import Field, create_model

from archqa import plug_ins
from archqa.core.value import FrozenModel
from archqa.tasks import registry
from archqa.tasks.pipeline_settings import PipelineSettings

Sections = Mapping[str, type[PipelineSettings]]
"""Pipeline name → type of its section of the settings."""

PlugInSections = tuple[tuple[str, type[PipelineSettings]], ...]


_of_plug_ins: dict[str, type[PipelineSettings]] = {}
"""The sections of plug-ins' pipelines that this process has used."""


def pipeline_sections() -> Sections:
    """The sections `pipelines.<name>` of all registered tasks; pipelines without settings have none.

    Pipelines of several tasks that share a name share a section, which has the settings of all.
    """
    return _sections(_settings_modules(), tuple(_of_plug_ins.items()))


def sections_model() -> type[FrozenModel]:
    """A model with one field for every section, each with its defaults."""
    return _sections_model(_settings_modules(), tuple(_of_plug_ins.items()))


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


def _settings_modules() -> tuple[str, ...]:
    modules = [_settings_module(task_path) for task_path in registry.paths()]
    return tuple(dict.fromkeys(modules))


def _settings_module(task_path: str) -> str:
    """`toy.task:TOY` is the path of a task whose settings are in `toy.settings`."""
    task_module, _, _ = task_path.partition(":")
    package, _, _ = task_module.rpartition(".")
    return f"{package}.settings"


@cache
def _sections(modules: tuple[str, ...], of_plug_ins: PlugInSections) -> Sections:
    types_by_pipeline: dict[str, list[type[PipelineSettings]]] = {}
    for module in modules:
        for pipeline, settings_type in _pipeline_settings(module).items():
            types = types_by_pipeline.setdefault(pipeline, [])
            if settings_type.model_fields and settings_type not in types:
                types.append(settings_type)
    sections: dict[str, type[PipelineSettings]] = {}
    for pipeline, types in types_by_pipeline.items():
        if types:
            sections[pipeline] = _combined(pipeline, types)
    return MappingProxyType({**dict(of_plug_ins), **sections})


def _pipeline_settings(module: str) -> Sections:
    if find_spec(module) is None:
        return {}  # None of the task's pipelines has settings of its own.
    settings: Sections = import_module(module).PIPELINE_SETTINGS
    return settings


def _combined(pipeline: str, types: list[type[PipelineSettings]]) -> type[PipelineSettings]:
    if len(types) == 1:
        return types[0]
    return create_model(f"{pipeline.title()}Section", __base__=tuple(types))


@cache
def _sections_model(modules: tuple[str, ...], of_plug_ins: PlugInSections) -> type[FrozenModel]:
    fields: dict[str, Any] = {}
    for pipeline, section in _sections(modules, of_plug_ins).items():
        fields[pipeline] = (section, Field(default_factory=section))
    model: type[FrozenModel] = create_model("PipelineSections", __base__=FrozenModel, **fields)
    return model
