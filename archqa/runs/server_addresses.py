"""The address and the key of a model server, checked before anything is sent or written."""

from archqa.errors import AuthenticationFailed, CallerError
from archqa.llm.transport import HttpTransport, RetryAfterHook
from archqa.safety.base_urls import check_encrypted, model_server_problem
from archqa.safety.server_urls import OPENAI_BASE_URL
from archqa.settings import Settings


def open_transport(
    settings: Settings, base_url: str | None, heed: RetryAfterHook = lambda _: None
) -> HttpTransport:
    """Open a connection to one server; `heed` is called with the headers of each reply.

    Raises `AuthenticationFailed` without a key for api.openai.com, `CallerError` for an invalid
    URL.
    """
    url, key = server_address(settings, base_url)
    return HttpTransport(url, key, settings.limits.timeout, heed)


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
            "Set OPENAI_API_KEY, name another server with --base-url, or use --pipeline embedded."
        )
    check_model_server(settings, base_url)
    key = "none" if secret is None else secret.get_secret_value()
    return base_url or OPENAI_BASE_URL, key
