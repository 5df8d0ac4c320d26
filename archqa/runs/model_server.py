"""What a model server says of itself."""

import asyncio
from typing import TYPE_CHECKING

from archqa.errors import AuthenticationFailed, CallerError, ServerUnavailable
from archqa.runs.backends import server_address
from archqa.settings import DEFAULT_MODEL, Settings

if TYPE_CHECKING:
    import openai


def resolve_model(settings: Settings) -> Settings:
    """Settings that name a model: a server of one's own with a single model needs no --model.

    Raises `CallerError` that lists the models where the paper's are not among several.
    """
    if settings.model or settings.base_url is None or not settings.has_model:
        return settings
    try:
        names = asyncio.run(list_models(settings))
    except ServerUnavailable:
        return settings  # Not every server lists its models; whether it has the paper's shows with the first request.
    if not names or DEFAULT_MODEL in names:
        return settings
    if len(names) == 1:
        return settings.replace(model=names[0])
    raise CallerError(
        f"{settings.base_url} serves {', '.join(names[:8])}.\nChoose one with --model."
    )


async def list_models(settings: Settings) -> list[str]:
    """The names of the models the server in the settings serves (`GET /models`). Raises `ModelError`."""
    import openai

    client = open_client(settings, settings.base_url)
    try:
        return [model.id async for model in client.models.list()]
    except openai.AuthenticationError:
        raise AuthenticationFailed(
            f"{client.base_url} refuses the key.\nSet OPENAI_API_KEY to one it accepts."
        ) from None
    except openai.OpenAIError as error:
        why = f"{client.base_url} does not list its models ({type(error).__name__})."
        raise ServerUnavailable(f"{why}\nCheck --base-url and whether the server runs.") from None
    finally:
        await client.close()


def open_client(settings: Settings, base_url: str | None) -> "openai.AsyncOpenAI":
    """The openai package's connection to one server, for its files and its list of models; slow to import.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` for what is no URL.
    """
    import openai

    url, key = server_address(settings, base_url)
    return openai.AsyncOpenAI(
        api_key=key, base_url=url, max_retries=0, timeout=settings.limits.timeout
    )
