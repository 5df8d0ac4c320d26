"""What a server's refusal means: which error it is, and what to do.

The server's text may quote the prompt, so it is never passed on.
"""

import json
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

from archqa.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    Refused,
    ToolsNotSupported,
)
from archqa.llm.model import Request, TransientError
from archqa.llm.transport import HttpResponse

TRANSIENT_STATUS_CODES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_NO_TOOLS_STATUS_CODES = frozenset({400, 404, 422, 500, 501})

_TOO_LONG = re.compile(r"context[ _](?:length|window|size)|prompt is too long")
"""How OpenAI, Azure, vLLM, llama.cpp and Anthropic say that a prompt does not fit (lower case)."""

_NO_TOOLS = re.compile(
    r"\btools?\b.{0,80}(?:not support|unsupported|requires|unexpected)|not support.{0,40}\btools?\b"
)
"""How Ollama, vLLM and llama.cpp say that a model, or the server as started, cannot call tools
(lower case).
"""

_WRONG_KEY = "api key not valid"
"""How Gemini refuses a key, with HTTP 400 (lower case)."""

_FILTER_CODES = frozenset({"content_filter", "responsibleaipolicyviolation", "invalid_prompt"})
"""Codes with which Azure's filter, and OpenAI's usage policy, refuse a prompt (lower case)."""

_FLAGGED = re.compile(r"input was flagged|requires moderation")
"""How OpenRouter refuses a prompt that a provider's moderation would (HTTP 403, lower case)."""

_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,40}")


def is_too_long(text: str) -> bool:
    """Whether a refusal (lower case) says that the prompt does not fit the context window."""
    return bool(_TOO_LONG.search(text))


def is_filtered(refusal: HttpResponse, text: str) -> bool:
    """Whether a filter of the provider refused the prompt; `text` is the body in lower case."""
    if refusal.status == 403:
        return bool(_FLAGGED.search(text))
    return refusal.status == 400 and bool(_FILTER_CODES & set(_error_codes(text)))


def error_for(refusal: HttpResponse, text: str, request: Request, url: str) -> Exception:
    """The error that a refusal means; `text` is its body in lower case, `url` names the server."""
    if is_filtered(refusal, text):
        return Refused(
            f"A content filter of {url} refuses the prompt.\n"
            "Ask the provider for another filter, or take another server for this case."
        )
    may_lack_tools = request.tools and refusal.status in _NO_TOOLS_STATUS_CODES
    if may_lack_tools and _NO_TOOLS.search(text):
        return ToolsNotSupported(
            f"{url} cannot let {request.model} call tools.\n"
            "Take a model that can, or a --pipeline that needs none (`archqa list pipelines`)."
        )
    return _error_of_status(refusal, text, request.model, url)


def _error_of_status(refusal: HttpResponse, text: str, model: str, url: str) -> Exception:
    """The error that a status means."""
    status = refusal.status
    if status in {401, 403} or (status == 400 and _WRONG_KEY in text):
        return AuthenticationFailed(
            f"{url} refuses the key (HTTP {status}).\nSet OPENAI_API_KEY to a key it accepts."
        )
    if status == 413 or (status in {400, 422} and _TOO_LONG.search(text)):
        return ContextTooLong(
            f"The prompt and the reply's max_tokens do not fit {model}'s context window."
        )
    if status == 404:
        return ModelNotFound(
            f"{url} does not know the model {model!r}.\nList its models with: archqa list models"
        )
    if status in TRANSIENT_STATUS_CODES or status >= 500:
        return TransientError(f"HTTP {status}", _retry_after(refusal))
    code = _error_code(refusal)
    suffix = f" ({code})" if code else ""
    return ModelError(
        f"{url} refuses the request with HTTP {status}{suffix}.\n"
        "See `archqa doctor` for what it supports."
    )


def _error_code(refusal: HttpResponse) -> str:
    """The error's code if it is a single word, else an empty text."""
    codes = _error_codes(refusal.body.decode("utf-8", "replace"))
    code = next(iter(codes), "")
    return code if _ERROR_CODE.fullmatch(code) else ""


def _error_codes(body: str) -> list[str]:
    """The code of an error, and Azure's code of the error within it."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(error, dict):
        return []
    inner: Any = error.get("innererror")
    codes = [error.get("code"), inner.get("code") if isinstance(inner, dict) else None]
    return [str(code) for code in codes if code]


def _retry_after(refusal: HttpResponse) -> float | None:
    """Seconds to wait; the header has seconds or an HTTP date (RFC 9110, 10.2.3)."""
    header = refusal.headers.get("retry-after", "")
    try:
        if header[:1].isdigit():
            return max(0.0, float(header))
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
