"""What is known of a provider from its address alone: the header for the key, and silent gaps.

A server that refuses a parameter is learned from its refusals (`dialect`). A parameter that is
ignored without a word, and a key in the wrong header, cannot be learned that way.
Sources, as remembered in November 2026 (none could be tried): Azure OpenAI REST reference,
"Authentication"; Anthropic, "OpenAI SDK compatibility"; OpenRouter, "Provider routing".
"""

import re
from urllib.parse import parse_qsl, urlsplit

from archqa.llm.dialect import Dialect, StructuredOutputMode

_AZURE_DOMAINS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_AZURE_PARAMETERS = frozenset({"api-version", "deployment"})
_ENTRA_TOKEN = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]+")
"""A JSON Web Token, which Azure takes as a bearer; its keys are no such tokens."""

_ANTHROPIC_HOST = "api.anthropic.com"
_OPENROUTER_HOST = "openrouter.ai"


def key_headers(base_url: str, key: str) -> dict[str, str]:
    """The header that carries a key: `api-key` at Azure, else `Authorization`."""
    if is_azure(base_url) and not _ENTRA_TOKEN.fullmatch(key):
        return {"api-key": key}
    return {"Authorization": f"Bearer {key}"}


def is_azure(base_url: str) -> bool:
    """Whether a server is Azure OpenAI: by its domain, or by a parameter that only Azure has.

    The parameter tells it behind a gateway of one's own.
    """
    parts = urlsplit(base_url)
    names = {name.lower() for name, _ in parse_qsl(parts.query)}
    return _host(base_url).endswith(_AZURE_DOMAINS) or bool(names & _AZURE_PARAMETERS)


def first_dialect(base_url: str) -> Dialect:
    """What to send first to a server.

    Anthropic's endpoint ignores `response_format` and `logprobs`, so that the schema stands in the
    prompt. OpenRouter may pass a request to a provider that ignores them, unless told not to.
    """
    host = _host(base_url)
    if host == _ANTHROPIC_HOST:
        return Dialect(structure=StructuredOutputMode.TEXT, likelihoods=False)
    if host == _OPENROUTER_HOST:
        return Dialect(require_parameters=True)
    return Dialect()


def _host(base_url: str) -> str:
    return (urlsplit(base_url).hostname or "").lower()
