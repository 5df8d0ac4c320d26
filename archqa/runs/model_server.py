"""The models that a server lists, and the choice of one of them."""

import asyncio
from typing import TYPE_CHECKING

from archqa.errors import AuthenticationFailed, CallerError, ServerUnavailable
from archqa.runs.backends import server_address
from archqa.settings import DEFAULT_MODEL, Settings

if TYPE_CHECKING:
    import openai

_MAX_MODELS_SHOWN = 8


def resolve_model(settings: Settings) -> Settings:
    """Settings with a model: a server of one's own that serves a single model needs no --model.

    Raises `CallerError` that lists the models where the server has several, none of them the
    paper's.
    """
    if settings.model or settings.base_url is None or not settings.has_model:
        return settings
    try:
        names = asyncio.run(list_models(settings))
    except ServerUnavailable:
        return (
            settings  # Not every server lists its models; the first request will show what it has.
        )
    if not names or DEFAULT_MODEL in names:
        return settings
    if len(names) == 1:
        return settings.replace(model=names[0])
    shown = ", ".join(names[:_MAX_MODELS_SHOWN])
    raise CallerError(f"{settings.base_url} serves {shown}.\nChoose one with --model.")


async def list_models(settings: Settings) -> list[str]:
    """The names of the models that the server in the settings serves (`GET /models`).

    Raises `ModelError`.
    """
    import openai

    client = open_client(settings, settings.base_url)
    try:
        return [model.id async for model in client.models.list()]
    except openai.AuthenticationError:
        raise AuthenticationFailed(
            f"{client.base_url} refuses the key.\nSet OPENAI_API_KEY to one it accepts."
        ) from None
    except openai.OpenAIError as error:
        problem = f"{client.base_url} does not list its models ({type(error).__name__})."
        raise ServerUnavailable(
            f"{problem}\nCheck --base-url and whether the server runs."
        ) from None
    finally:
        await client.close()


def open_client(settings: Settings, base_url: str | None) -> "openai.AsyncOpenAI":
    """A client of the openai package for one server's files and list of models; slow to import.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` for an invalid
    URL.
    """
    import openai

    url, key = server_address(settings, base_url)
    return openai.AsyncOpenAI(
        api_key=key, base_url=url, max_retries=0, timeout=settings.limits.timeout
    )
