"""Which model at which server runs an agent."""

from typing import NamedTuple

from archqa.errors import CallerError
from archqa.settings import CONTEXT_MODEL, DEFAULT_MODEL, Settings
from archqa.tasks.pipeline import Pipeline


class ModelEndpoint(NamedTuple):
    """A model at a server; without a URL, the server is OpenAI's."""

    model: str
    base_url: str | None

    def __str__(self) -> str:
        return f"{self.model} at {self.base_url or 'api.openai.com'}"


def model_endpoint(settings: Settings, agent: str) -> ModelEndpoint:
    """Return an agent's own model, else the run's, else the paper's, at the agent's or the run's server."""
    own = settings.agent(agent)
    model_of_paper = CONTEXT_MODEL if agent == "context" else DEFAULT_MODEL
    model = own.model or settings.model or model_of_paper
    return ModelEndpoint(model, own.base_url or settings.base_url)


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
        if model_endpoint(settings, agent).base_url is None:
            raise no_server_asked_for(f"The pipeline {pipeline.name} needs a model")


def no_server_asked_for(need: str, options: str = "--model NAME or --base-url URL") -> CallerError:
    """The error for a need without a model server, with the options that name one."""
    return CallerError(
        f"{need}, and no model server was asked for.\n"
        f"Add {options}, or set ARCHQA_MODEL "
        "(OPENAI_API_KEY or OPENAI_BASE_URL alone sends nothing)."
    )
