"""What a model server says of itself."""

import openai

from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.runs.minds import open_client
from archqa.settings import Settings


async def models_of(settings: Settings) -> list[str]:
    """The names of the models the server in the settings serves (`GET /models`). Raises `ModelError`."""
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
