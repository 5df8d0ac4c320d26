"""A model behind an OpenAI-compatible server, and what the server's refusals mean.

Source of the protocol: the OpenAI API reference, "Chat completions" and "Structured outputs". Other
servers support parts of it (docs/servers.md): see `dialect` for what is learned from their
refusals. A server's text may quote the prompt, so it is never passed on.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from archqa.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    Refused,
    ToolsNotSupported,
)
from archqa.llm.completion import completion_in, parse_completion
from archqa.llm.dialect import Dialect, first_dialect
from archqa.llm.model import Reply, Request, TransientError
from archqa.llm.prices import Price
from archqa.safety.server_urls import server_identity
from archqa.safety.text import json_without_surrogates

if TYPE_CHECKING:
    import httpx2

    from archqa.llm.server import ModelServer

_DIALECT_STATUS_CODES = frozenset({400, 404, 415, 422, 501})
"""Status codes with which servers reject a parameter that they do not support."""

_TRANSIENT_STATUS_CODES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

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

_FILTER_CODES = frozenset(
    {"content_filter", "responsibleaipolicyviolation", "invalid_prompt"}
)
"""Codes with which Azure's filter, and OpenAI's usage policy, refuse a prompt (lower case)."""

_FLAGGED = re.compile(r"input was flagged|requires moderation")
"""How OpenRouter refuses a prompt that a provider's moderation would (HTTP 403, lower case)."""

_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,40}")


class ServerModel:
    """Sends each request once, to the server at `base_url`.

    Learns per model what the server cannot do; raises `TransientError` for passing faults.
    `timeout` is in seconds. `price_of` gives the price of a model, `on_headers` is called with the
    headers of each response. `initial_dialect` replaces what is known of the server from its
    address, `transport` the network.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        timeout: float = 180.0,
        price_of: Callable[[str], Price | None] = lambda _: None,
        on_headers: Callable[[Mapping[str, str]], None] = lambda _: None,
        initial_dialect: Dialect | None = None,
        transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        self._base_url = base_url
        self._key = key
        self._timeout = timeout
        self._price_of = price_of
        self._on_headers = on_headers
        self._initial_dialect = initial_dialect or first_dialect(base_url)
        self._transport = transport
        self._server: ModelServer | None = None
        self._dialects: dict[str, Dialect] = {}
        self._structured_models: set[str] = set()
        self._crashes: Counter[str] = Counter()

    async def ask(self, request: Request) -> Reply:
        """Answer one request; as long as the server objects to the dialect, try a weaker one."""
        dialect = self.dialect_for(request.model)
        while True:
            start = time.monotonic()
            # Half a character cannot be sent as UTF-8.
            body = json_without_surrogates(dialect.arguments(request))
            if self._server is None:
                from archqa.llm.server import (
                    ModelServer,
                )  # Its SDK takes 0.7 s to import.

                self._server = ModelServer(
                    self._base_url, self._key, self._timeout, self._transport
                )
            response = await self._server.chat(body)
            self._on_headers(response.headers)
            if response.status_code < 400:
                completion = completion_in(response.content)
                self._learn(request, dialect)
                seconds = time.monotonic() - start
                return parse_completion(
                    completion, self._price_of(request.model), seconds
                )
            dialect = self._weaker_dialect(response, dialect, request)

    def dialect_for(self, model: str) -> Dialect:
        """What a request to a model is sent in: the dialect that worked, else the first to try."""
        return self._dialects.get(model, self._initial_dialect)

    def _learn(self, request: Request, dialect: Dialect) -> None:
        """Remember a dialect that worked; of several, the strictest.

        A reply in prose proves nothing about structure.
        """
        known_dialect = self.dialect_for(request.model)
        if request.output_schema is None:
            structure = known_dialect.structure
            self._dialects[request.model] = dialect.model_copy(
                update={"structure": structure}
            )
            return
        is_first = request.model not in self._structured_models
        if is_first or dialect.structure >= known_dialect.structure:
            self._dialects[request.model] = dialect
        self._structured_models.add(request.model)

    async def close(self) -> None:
        """Close the connections."""
        if self._server is not None:
            await self._server.close()

    def _weaker_dialect(
        self, refusal: "httpx2.Response", dialect: Dialect, request: Request
    ) -> Dialect:
        """A weaker dialect to try at once; raises the error that the refusal means otherwise."""
        text = refusal.content.decode("utf-8", "replace").lower()
        status = refusal.status_code
        # The server may object to the structure if it is stricter than any that worked.
        structured = request.output_schema is not None and (
            request.model not in self._structured_models
            or dialect.structure > self._dialects[request.model].structure
        )
        weaker: Dialect | None = None
        if not _is_filtered(status, text):
            if status in _DIALECT_STATUS_CODES and not _TOO_LONG.search(text):
                weaker = dialect.fallback_for(text, structured=structured)
            elif status == 500 and structured:
                # Servers without json_schema may crash on it instead of refusing it: two crashes
                # are no passing fault.
                self._crashes[request.digest] += 1
                if self._crashes[request.digest] > 1:
                    weaker = dialect.with_weaker_structure()
        if weaker is None:
            raise _error_for(refusal, text, request, server_identity(self._base_url))
        return weaker


def _is_filtered(status: int, text: str) -> bool:
    """Whether a filter of the provider refused the prompt; `text` is the body in lower case."""
    if status == 403:
        return bool(_FLAGGED.search(text))
    return status == 400 and bool(_FILTER_CODES & set(_error_codes(text)))


def _error_for(
    refusal: "httpx2.Response", text: str, request: Request, server: str
) -> Exception:
    """The error that a refusal means; `text` is its body in lower case."""
    status = refusal.status_code
    if _is_filtered(status, text):
        return Refused(
            f"A content filter of {server} refuses the prompt.\n"
            "Ask the provider for another filter, or take another server for this case."
        )
    if request.tools and status in _NO_TOOLS_STATUS_CODES and _NO_TOOLS.search(text):
        return ToolsNotSupported(
            f"{server} cannot let {request.model} call tools.\n"
            "Take a model that can, or a pipeline that needs none (`archqa list pipelines`)."
        )
    if status in {401, 403} or (status == 400 and _WRONG_KEY in text):
        return AuthenticationFailed(
            f"{server} refuses the key (HTTP {status}).\nSet OPENAI_API_KEY to a key it accepts."
        )
    if status == 413 or (status in {400, 422} and _TOO_LONG.search(text)):
        return ContextTooLong(
            f"The prompt and the reply's max_tokens do not fit {request.model}'s context window."
        )
    if status == 404:
        return ModelNotFound(
            f"{server} does not know the model {request.model!r}.\n"
            "List its models with: archqa list models"
        )
    if status in _TRANSIENT_STATUS_CODES or status >= 500:
        return TransientError(f"HTTP {status}", _retry_after(refusal.headers))
    code = next(iter(_error_codes(refusal.content.decode("utf-8", "replace"))), "")
    suffix = f" ({code})" if _ERROR_CODE.fullmatch(code) else ""
    return ModelError(
        f"{server} refuses the request with HTTP {status}{suffix}.\n"
        "See `archqa doctor` for what it supports."
    )


def _error_codes(body: str) -> list[str]:
    """The code of an error, and Azure's code of the error within it."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(error, dict):
        return []
    codes = [error.get("code")]
    if isinstance(error.get("innererror"), dict):
        codes.append(error["innererror"].get("code"))
    return [str(code) for code in codes if code]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; the header has seconds or an HTTP date (RFC 9110, 10.2.3)."""
    header = headers.get("retry-after", "")
    try:
        if header[:1].isdigit():
            return max(0.0, float(header))
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
