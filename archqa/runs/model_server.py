"""The model server of the settings: its address and key, its models, and one request to try it."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from archqa.core.id_lists import list_ids
from archqa.core.value import FrozenModel
from archqa.errors import AuthenticationFailed, CallerError, ServerUnavailable
from archqa.llm.client import ServerModel
from archqa.llm.dialect import StructuredOutputMode
from archqa.llm.limits import RetryingModel
from archqa.llm.model import FinishReason, Message, OfferedModel, Request
from archqa.llm.structured import Rejected, parse_output, strict_schema
from archqa.runs.event_loop import run_sync
from archqa.safety.server_urls import (
    OPENAI_BASE_URL,
    check_encrypted,
    model_server_problem,
)
from archqa.settings import CONTEXT_MODEL, DEFAULT_MODEL, Settings
from archqa.tasks.pipeline import Pipeline

if TYPE_CHECKING:
    from archqa.llm.server import ModelServer


MAX_TOKENS = 512
"""Of the reply to the request that tries a model. A model that thinks first may need them all."""

_QUESTION = "What colour is the sky on a clear day at noon? Answer with one word."
"""It asks for what the schema does not allow: a model that nothing holds to the schema answers with
the colour of the sky, one that is held to it must name a stone.
"""


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


def backend_kinds(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """Return what runs each agent: its own backend or the run's in the settings, else the pipeline's."""
    kinds = {}
    for agent in pipeline.agents:
        kinds[agent] = settings.backend_of(agent) or pipeline.backend
    return kinds


def model_agents(settings: Settings, pipeline: Pipeline) -> list[str]:
    """Return the agents of a pipeline that a model runs."""
    kinds = backend_kinds(settings, pipeline)
    return [agent for agent, kind in kinds.items() if kind == "model"]


def check_server_asked_for(settings: Settings, pipeline: Pipeline) -> None:
    """Raise `CallerError` where an agent needs the run's model server and nobody asked for it.

    A key or a URL in the environment alone is no request.
    """
    if settings.has_model:
        return
    for agent in model_agents(settings, pipeline):
        if model_endpoint(settings, agent).base_url is None:
            raise no_server_asked_for(f"The pipeline {pipeline.name} needs a model")


def no_server_asked_for(need: str) -> CallerError:
    """The error for a need without a model server."""
    return CallerError(
        f"{need}, and no model server was asked for.\n"
        "Add --model NAME or --base-url URL, or set ARCHQA_MODEL "
        "(OPENAI_API_KEY or OPENAI_BASE_URL alone sends nothing)."
    )


class _Stone(FrozenModel):
    """What the schema asks for."""

    stone: Literal["basalt", "granite"]


class Trial(NamedTuple):
    """What the server did with the request.

    `mode` is the strictest form of output that it took. `fits` says whether the reply keeps to the
    schema; None for one that was cut off, empty or refused, which `finish` tells apart.
    """

    mode: StructuredOutputMode
    fits: bool | None
    finish: FinishReason


def check_model_server(settings: Settings, base_url: str | None) -> None:
    """Raise `CallerError` for a URL that is none or holds a secret, and for plain http to another
    machine where that is not allowed. None stands for api.openai.com.
    """
    if base_url is None:
        return
    problem = model_server_problem(base_url)
    if problem:
        raise CallerError(
            f"The model server's base URL {problem}.\nFor example: http://127.0.0.1:8000/v1"
        )
    check_encrypted(base_url, allow_plain_http=settings.allow_plain_http)


def server_address(settings: Settings, base_url: str | None) -> tuple[str, str]:
    """Return a server's URL and the key for it.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` as
    `check_model_server` does.
    """
    secret = settings.api_key_for(base_url)
    if secret is None and base_url is None:
        raise AuthenticationFailed(
            "There is no key for api.openai.com.\n"
            "Set OPENAI_API_KEY, name another server with --base-url, or leave --model out: "
            "then the engine inside archqa answers."
        )
    check_model_server(settings, base_url)
    key = "none" if secret is None else secret.get_secret_value()
    return base_url or OPENAI_BASE_URL, key


def open_server(settings: Settings) -> "ModelServer":
    """A client for the list of models and the files of the server in the settings.

    Raises as `server_address` does.
    """
    url, key = server_address(settings, settings.base_url)
    from archqa.llm.server import ModelServer  # Its SDK is slow to import.

    return ModelServer(url, key, settings.limits.timeout)


async def list_models(settings: Settings) -> list[OfferedModel]:
    """Return the models that the server of the settings offers. Raises `ModelError`."""
    async with open_server(settings) as server:
        return await server.models()


def resolve_model(settings: Settings) -> Settings:
    """Settings with a model: a server of one's own that serves a single model needs no --model.

    Raises `CallerError` that lists the models where the server has several, none of them the
    paper's.
    """
    if settings.model or settings.base_url is None:
        return settings
    try:
        names = [model.id for model in run_sync(list_models(settings))]
    except ServerUnavailable:
        # Not every server lists its models; the first request will show what it has.
        return settings
    if not names or DEFAULT_MODEL in names:
        return settings
    if len(names) == 1:
        return settings.replace(model=names[0])
    raise CallerError(
        f"{settings.base_url} serves {list_ids(names)}.\nChoose one with --model."
    )


async def try_model(settings: Settings, model: str) -> Trial:
    """Send one tiny request to the server of the settings, to see whether it keeps a reply to a
    JSON Schema. No text of a record is in it.

    Raises `ModelError`, `CaseFailed` for a context of a few tokens, and `CallerError` for an invalid
    URL.
    """
    url, key = server_address(settings, settings.base_url)
    server = ServerModel(url, key, timeout=settings.limits.timeout)
    retries = settings.retries
    retrying = RetryingModel(server, tries=retries.tries, first_wait=retries.first_wait)
    request = Request(
        model=model,
        messages=(Message(role="user", content=_QUESTION),),
        output_schema=strict_schema(_Stone),
        schema_name="stone",
        max_tokens=MAX_TOKENS,
    )
    try:
        reply = await retrying.ask(request)
    finally:
        await server.close()
    fits: bool | None = True
    try:
        parse_output(reply.text, _Stone)
    except Rejected:
        fits = False if reply.finish is FinishReason.COMPLETE else None
    return Trial(server.dialect_for(model).structure, fits, reply.finish)
