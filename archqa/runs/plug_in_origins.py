"""Which parts of a run come from plug-ins, for `run.json`."""

from collections.abc import Iterator

from archqa import plug_ins
from archqa.agents.registry import plug_ins_of
from archqa.plug_ins import PlugIn
from archqa.runs.own_backends import own_backend_names
from archqa.settings import Settings
from archqa.tasks import registry
from archqa.tasks.pipeline import Pipeline


def plug_in_origins(task: str, pipeline: Pipeline, settings: Settings) -> dict[str, str]:
    """`pipelines.plain` → `archqa-example-plugin 0.1.0`, for all that is not archqa's own."""
    parts = _parts(task, pipeline, settings)
    return {f"{plug_in.kind}.{plug_in.name}": plug_in.origin for plug_in in parts}


def _parts(task: str, pipeline: Pipeline, settings: Settings) -> Iterator[PlugIn]:
    used = []
    if not registry.is_registered(task):
        used.append(plug_ins.find("tasks", task))
    if pipeline.tasks:
        used.append(plug_ins.find("pipelines", pipeline.name))
    for backend in own_backend_names(settings, pipeline.agents):
        used.append(plug_ins.find("backends", backend))
    yield from (plug_in for plug_in in used if plug_in is not None)
    yield from plug_ins_of(pipeline.agents)
