"""Settings that name plug-ins, and those that only plug-ins can have.

A plug-in's pipeline is imported when a setting names it.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from archqa import plug_ins
from archqa.errors import CallerError
from archqa.settings.names import short_names
from archqa.tasks.settings import PipelineSettings, pipeline_sections, use_all_plug_ins, use_plug_in

BACKENDS = ("model", "embedded")
"""archqa's own backends; other names are those of plug-ins."""


def _refuse_unknown_backend(name: str | None) -> str | None:
    if name is None or name in BACKENDS or plug_ins.find("backends", name):
        return name
    names = [*BACKENDS, *(plug_in.name for plug_in in plug_ins.installed("backends", BACKENDS))]
    raise ValueError(f"Input should be {' or '.join(map(repr, names))}")


BackendName = Annotated[str | None, AfterValidator(_refuse_unknown_backend)]
"""`model`, `embedded` or the name of a plug-in; None leaves it to the pipeline."""


def use_plug_ins_named_in(values: Mapping[str, Any], known: Collection[str]) -> None:
    """Add the settings of the plug-ins that some values name; `known` are archqa's own settings.

    A plug-in's pipeline is named by `pipeline`; the setting of a pipeline that archqa does not have
    may be any plug-in's. Raises `PlugInError` for a pipeline that cannot be used.
    """
    pipeline = values.get("pipeline")
    if isinstance(pipeline, str):
        use_plug_in(pipeline)
    if _names_unknown(values, known):
        use_all_plug_ins()


def _names_unknown(values: Mapping[str, Any], known: Collection[str]) -> bool:
    sections = values.get("pipelines")
    if isinstance(sections, Mapping):
        # Environment variables have no hyphens.
        named = {name.replace("_", "-") for name in sections}
        if not named <= {name.replace("_", "-") for name in pipeline_sections()}:
            return True
    return bool(values.keys() - set(known) - set(short_names()))


def check_no_setting_lost(
    pipeline: str, settings_type: type[PipelineSettings], typed: Collection[str]
) -> None:
    """Raise `CallerError` for typed short names that are settings of a plug-in's pipeline as well.

    They were taken for those of archqa's pipelines, since this one was not named.
    """
    lost = sorted(set(typed) & settings_type.model_fields.keys())
    if lost:
        names = ", ".join(f"pipelines.{pipeline}.{name}" for name in lost)
        raise CallerError(
            f"{pipeline} is a plug-in's pipeline, which is not named.\n"
            f"Add --pipeline {pipeline}, or give settings in full: {names}."
        )
