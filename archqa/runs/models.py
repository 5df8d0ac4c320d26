"""The models that run an agent: `name`, or `name@server` with a server from the settings."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archqa import tasks
from archqa.core.id_lists import list_ids
from archqa.core.near_misses import did_you_mean
from archqa.errors import CallerError
from archqa.panel.decision import ENGINE
from archqa.panel.settings import PanelSettings
from archqa.settings import CONTEXT_MODEL, DEFAULT_MODEL, Settings
from archqa.tasks.pipeline import Pipeline

if TYPE_CHECKING:
    from archqa.agents.exemplars import ExemplarIndex


class ModelEndpoint(NamedTuple):
    """A model at a server. `label` is its name in the settings, under which it votes."""

    label: str
    model: str
    base_url: str | None

    def __str__(self) -> str:
        return f"{self.label} at {self.base_url or 'api.openai.com'}"


def model_endpoints(settings: Settings, agent: str) -> tuple[ModelEndpoint, ...]:
    """Return an agent's `models`, else its own model, else the run's, else the paper's.

    Raises `CallerError` for a server that is not defined.
    """
    own = settings.agent(agent)
    base_url = own.base_url or settings.base_url
    if own.models:
        return tuple(_endpoint(name, settings, base_url) for name in own.models)
    model_of_paper = CONTEXT_MODEL if agent == "context" else DEFAULT_MODEL
    model = own.model or settings.model or model_of_paper
    return (ModelEndpoint(model, model, base_url),)


def model_agents(settings: Settings, pipeline: Pipeline) -> list[str]:
    """Return the agents of a pipeline that a model runs."""
    return [
        agent for agent in pipeline.agents if backend_kind(settings, pipeline, agent) == "model"
    ]


def backend_kind(settings: Settings, pipeline: Pipeline, agent: str) -> str:
    """Return what runs an agent: its own backend or the run's in the settings, else the pipeline's."""
    return settings.backend_of(agent) or pipeline.backend


def check_server_asked_for(settings: Settings, pipeline: Pipeline) -> None:
    """Raise `CallerError` where an agent needs the run's model server and nobody asked for it.

    A key or a URL in the environment alone is no request.
    """
    if settings.has_model:
        return
    for agent in model_agents(settings, pipeline):
        for endpoint in model_endpoints(settings, agent):
            if endpoint.base_url is None:
                raise no_server_asked_for(f"The pipeline {pipeline.name} needs a model")


def no_server_asked_for(need: str, options: str = "--model NAME or --base-url URL") -> CallerError:
    """The error for a need without a model server, with the options that name one."""
    return CallerError(
        f"{need}, and no model server was asked for.\n"
        f"Add {options}, or set ARCHQA_MODEL "
        "(OPENAI_API_KEY or OPENAI_BASE_URL alone sends nothing)."
    )


def check_model_counts(settings: Settings, pipeline: Pipeline) -> None:
    """Raise `CallerError` where several models are set for an agent that one model runs."""
    for agent in pipeline.agents:
        if len(settings.agent(agent).models) < 2 or agent in pipeline.multi_model_agents:
            continue
        advice = "--pipeline panel lets several models vote."
        if pipeline.multi_model_agents:
            advice = f"Several may be: {', '.join(pipeline.multi_model_agents)}."
        raise CallerError(f"In {pipeline.name} one model performs {agent}, not several.\n{advice}")


def decision_components(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """Return what decides in the panel besides the agents, for `run.json`.

    These are the engine's vote and the combiner.
    """
    from archqa.engine import Engine
    from archqa.panel import combiner

    own = settings.for_pipeline(pipeline)
    components: dict[str, str] = {}
    if not isinstance(own, PanelSettings):
        return components
    if own.engine_vote:
        components[ENGINE] = f"embedded:{Engine.load().fingerprint[:12]}"
    if own.combiner:
        components["combiner"] = f"combiner:{combiner.file_sha256(own.combiner)[:12]}"
    return components


def load_exemplars(path: Path | None) -> "ExemplarIndex | None":
    """Return the exemplars of a case file with its key; None if no file is set.

    Raises `InputError`.
    """
    from archqa.agents.exemplars import ExemplarIndex

    if path is None:
        return None
    file, key = tasks.load_notes(path), tasks.find_key(path)
    if key is None:
        raise CallerError(
            f"There is no key beside {path}.\nExemplars need one: {path.stem}_key.json"
        )
    keys = tasks.load_key(key).keys
    return ExemplarIndex((case, keys[case.id]) for case in file.notes if case.id in keys)


def _endpoint(name: str, settings: Settings, base_url: str | None) -> ModelEndpoint:
    model, separator, server = name.rpartition("@")
    if not separator:
        return ModelEndpoint(name, name, base_url)
    if server not in settings.servers:
        defined = list_ids(settings.servers) or "none yet"
        nearest = did_you_mean(server, settings.servers)
        advice = f"Servers defined: {defined}. Add one with --set servers.{server}.base_url=URL."
        raise CallerError(
            f"There is no server {server!r} for the model {name!r}.\n{f'{nearest} {advice}'.strip()}"
        )
    return ModelEndpoint(name, model, settings.servers[server].base_url)
