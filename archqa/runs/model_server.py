"""The models that a server lists, and the choice of one of them."""

from typing import TYPE_CHECKING

from archqa.core.id_lists import list_ids
from archqa.errors import CallerError, ServerUnavailable
from archqa.runs.event_loop import run_sync
from archqa.runs.models import no_server_asked_for
from archqa.runs.server_addresses import server_address
from archqa.settings import DEFAULT_MODEL, Settings

if TYPE_CHECKING:
    from archqa.llm.offered_models import OfferedModel
    from archqa.llm.server_api import ServerApi


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
        return (
            settings  # Not every server lists its models; the first request will show what it has.
        )
    if not names or DEFAULT_MODEL in names:
        return settings
    if len(names) == 1:
        return settings.replace(model=names[0])
    raise CallerError(f"{settings.base_url} serves {list_ids(names)}.\nChoose one with --model.")


async def list_models(settings: Settings) -> "list[OfferedModel]":
    """Return the models that the server offers (`GET /models`).

    Raises `CallerError` if no server was asked for, and `ModelError`.
    """
    if not settings.has_model:
        raise no_server_asked_for(
            "The list of models comes from a model server", options="--base-url URL"
        )
    async with open_server_api(settings) as server:
        return await server.models()


def open_server_api(settings: Settings) -> "ServerApi":
    """A client for the list of models and the files of the server in the settings.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` for an invalid
    URL.
    """
    from archqa.llm.server_api import ServerApi  # Its HTTP library is slow to import.

    url, key = server_address(settings, settings.base_url)
    return ServerApi(url, key, settings.limits.timeout)
