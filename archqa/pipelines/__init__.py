"""Arrangements of agents: plain async functions from a case to an outcome, found by name."""

from archqa.errors import CallerError
from archqa.pipelines.base import Outcome, Pipeline, PipelineSettings
from archqa.pipelines.dmis import PROMPTS, dmis

__all__ = ["PIPELINES", "Outcome", "Pipeline", "PipelineSettings", "find"]

PIPELINES: dict[str, Pipeline] = {
    each.name: each
    for each in (
        Pipeline("dmis", "the six stages of DMIS Lab (ArchEHR-QA 2025), performed by a model", "model", dmis, PROMPTS),
        Pipeline("embedded", "the same stages, performed by the engine inside archqa", "embedded", dmis, PROMPTS),
    )
}


def find(name: str) -> Pipeline:
    """The pipeline of this name. Raises `CallerError` that lists the names there are."""
    if name not in PIPELINES:
        raise CallerError(f"There is no pipeline {name!r}.\nThere are: {', '.join(PIPELINES)}.")
    return PIPELINES[name]
