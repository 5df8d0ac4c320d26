"""A model behind an OpenAI-compatible server (`POST /chat/completions`).

Source of the protocol: the OpenAI API reference, "Chat completions" and "Structured outputs". Other
servers (vLLM, Ollama, llama.cpp, Azure's v1 endpoint) support parts of it; see `dialect`.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

from archqa.core.usage import Usage
from archqa.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    ToolsNotSupported,
)
from archqa.llm.dialect import Dialect
from archqa.llm.likelihood import parse_logprobs
from archqa.llm.model import FinishReason, Reply, Request, ToolCall, TransientError
from archqa.llm.prices import Price
from archqa.llm.transport import HttpResponse, Transport, TransportError
from archqa.safety.server_urls import server_identity
from archqa.safety.whole_characters import whole_json

TRANSIENT_STATUS_CODES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_DIALECT_STATUS_CODES = frozenset({400, 404, 415, 422, 501})
"""Status codes with which servers reject a parameter that they do not support."""

_NO_TOOLS_STATUS_CODES = frozenset({400, 404, 422, 500, 501})

_FINISH_REASONS = {"length": FinishReason.LENGTH, "content_filter": FinishReason.FILTERED}

_TOO_LONG = re.compile(r"context[ _](?:length|window|size)|prompt is too long")
"""How OpenAI, Azure, vLLM and llama.cpp say that a prompt does not fit (lower case)."""

_NO_TOOLS = re.compile(
    r"\btools?\b.{0,80}(?:not support|unsupported|requires|unexpected)|not support.{0,40}\btools?\b"
)
"""How Ollama, vLLM and llama.cpp say that a model, or the server as started, cannot call tools
(lower case).
"""

_MAX_TOKENS = 10**9
"""Of one request. No model reads or writes a thousandth of it; more is a fault of the server."""

_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,40}")


class ServerModel:
    """Sends each request once.

    Learns per model what the server cannot do; raises `TransientError` for passing faults.
    """

    def __init__(
        self, transport: Transport, price_of: Callable[[str], Price | None] = lambda _: None
    ) -> None:
        self._transport = transport
        self._price_of = price_of
        self._dialects: dict[str, Dialect] = {}
        self._structured_models: set[str] = set()
        self._crashes: Counter[str] = Counter()

    async def ask(self, request: Request) -> Reply:
        """Answer one request; as long as the server objects to the dialect, try a weaker one."""
        dialect = self._dialects.get(request.model, Dialect())
        while True:
            start = time.monotonic()
            response = await self._post(dialect.arguments(request))
            if response.status < 400:
                completion = _parse_json(response.body)
                self._learn(request, dialect)
                seconds = time.monotonic() - start
                return parse_completion(completion, self._price_of(request.model), seconds)
            dialect = self._weaker_dialect(response, dialect, request)

    async def _post(self, arguments: dict[str, Any]) -> HttpResponse:
        # json.dumps escapes a lone surrogate, so the body can always be encoded.
        body = json.dumps(arguments, separators=(",", ":")).encode()
        try:
            return await self._transport.post("/chat/completions", body)
        except TransportError as error:
            raise TransientError(str(error)) from None

    def _learn(self, request: Request, dialect: Dialect) -> None:
        """Remember a dialect that worked; of several, the strictest.

        A reply in prose proves nothing about structure.
        """
        known_dialect = self._dialects.get(request.model, Dialect())
        if request.output_schema is None:
            structure = known_dialect.structure
            self._dialects[request.model] = dialect.model_copy(update={"structure": structure})
            return
        is_first = request.model not in self._structured_models
        if is_first or dialect.structure >= known_dialect.structure:
            self._dialects[request.model] = dialect
        self._structured_models.add(request.model)

    def _is_structure_unproven(self, request: Request, dialect: Dialect) -> bool:
        """Whether the server may be objecting to the structure: it is stricter than any that
        worked.
        """
        if request.output_schema is None:
            return False
        if request.model not in self._structured_models:
            return True
        return dialect.structure > self._dialects[request.model].structure

    def _weaker_dialect(self, refusal: HttpResponse, dialect: Dialect, request: Request) -> Dialect:
        """A weaker dialect to try at once; raises the error that the refusal means otherwise."""
        text = refusal.body.decode("utf-8", "replace").lower()
        structured = self._is_structure_unproven(request, dialect)
        weaker: Dialect | None = None
        if refusal.status in _DIALECT_STATUS_CODES and not _TOO_LONG.search(text):
            weaker = dialect.fallback_for(text, structured=structured)
        elif refusal.status == 500 and structured and self._crashed_before(request):
            weaker = dialect.with_weaker_structure()
        if weaker is not None:
            return weaker
        raise self._error_for(refusal, text, request)

    def _error_for(self, refusal: HttpResponse, text: str, request: Request) -> Exception:
        url = server_identity(self._transport.base_url)
        may_lack_tools = request.tools and refusal.status in _NO_TOOLS_STATUS_CODES
        if may_lack_tools and _NO_TOOLS.search(text):
            return ToolsNotSupported(
                f"{url} cannot let {request.model} call tools.\n"
                "Take a model that can, or a --pipeline that needs none (`archqa list pipelines`)."
            )
        return _error_of_status(refusal, text, request.model, url)

    def _crashed_before(self, request: Request) -> bool:
        """Count a crash; True from the second one on.

        Servers without json_schema may crash on it instead of refusing it: two crashes are no
        passing fault.
        """
        self._crashes[request.digest] += 1
        return self._crashes[request.digest] > 1


def parse_completion(completion: Any, price: Price | None, seconds: float = 0.0) -> Reply:
    """The reply in the JSON of a chat completion. Raises `TransientError` if it is not one."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        text = message.get("content") or ""
        refusal = message.get("refusal")
        tool_calls = _parse_tool_calls(message)
        return Reply(
            text=refusal or text,
            finish=_parse_finish(choice.get("finish_reason"), text, refusal, tool_calls),
            usage=_parse_usage(completion, price, seconds),
            served_by=_model_name(completion),
            tool_calls=tool_calls,
            tokens=parse_logprobs(choice),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _not_a_completion(error) from None


def _model_name(completion: Any) -> str:
    name = completion.get("model")
    return name if isinstance(name, str) else ""


def _parse_finish(
    reason: str | None,
    text: str,
    refusal: str | None,
    tool_calls: tuple[ToolCall, ...],
) -> FinishReason:
    if refusal:
        return FinishReason.REFUSED
    finish = _FINISH_REASONS.get(reason or "", FinishReason.COMPLETE)
    has_content = bool(text.strip() or tool_calls)
    if finish is FinishReason.COMPLETE and not has_content:
        return FinishReason.EMPTY
    return finish


def _parse_tool_calls(message: Any) -> tuple[ToolCall, ...]:
    rows = message.get("tool_calls") or ()
    return tuple(_parse_tool_call(row, number) for number, row in enumerate(rows, start=1))


def _parse_tool_call(row: Any, number: int) -> ToolCall:
    """One tool call.

    Some servers give it no id, and some give arguments as an object instead of text.
    """
    function = row["function"]
    arguments = function.get("arguments") or {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(
        id=row.get("id") or f"call_{number}",
        name=function["name"],
        arguments=arguments,
    )


def _parse_usage(completion: Any, price: Price | None, seconds: float) -> Usage:
    """The tokens that the server counted.

    A reply with no counts was paid as well, at an unknown cost.
    """
    prompt_tokens = _count(completion, "usage", "prompt_tokens")
    completion_tokens = _count(completion, "usage", "completion_tokens")
    if prompt_tokens is None or completion_tokens is None:
        return Usage(calls=1, cost_usd=None, seconds=seconds)
    cached_tokens = _count(completion, "usage", "prompt_tokens_details", "cached_tokens") or 0
    cached_tokens = min(cached_tokens, prompt_tokens)
    cost = price.cost(prompt_tokens, cached_tokens, completion_tokens) if price else None
    return Usage(
        calls=1,
        prompt_tokens=prompt_tokens,
        cached_prompt_tokens=cached_tokens,
        completion_tokens=completion_tokens,
        cost_usd=cost,
        seconds=seconds,
    )


def _count(completion: Any, *path: str) -> int | None:
    """The number of tokens at a path of keys; None if it is absent or no such number.

    A negative one would raise the budget that is left, and one of 400 digits has no cost.
    """
    node = completion
    for key in path:
        if not isinstance(node, dict):
            return None
        node = node.get(key)
    is_number = isinstance(node, int) and not isinstance(node, bool)
    return node if is_number and 0 <= node <= _MAX_TOKENS else None


def _parse_json(body: bytes) -> Any:
    """The JSON of a body. Raises `TransientError`: a proxy's error page or half a reply may pass."""
    try:
        return whole_json(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise _not_a_completion(error) from None


def _not_a_completion(error: Exception) -> TransientError:
    return TransientError(f"the reply is not a chat completion ({type(error).__name__})")


def _error_of_status(refusal: HttpResponse, text: str, model: str, url: str) -> Exception:
    """The error that a status means.

    The server's text may quote the prompt, so it is never passed on.
    """
    status = refusal.status
    if status in {401, 403}:
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
    try:
        code = str(json.loads(refusal.body)["error"]["code"] or "")
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return code if _ERROR_CODE.fullmatch(code) else ""


def _retry_after(refusal: HttpResponse) -> float | None:
    """Seconds to wait; the header has seconds or an HTTP date (RFC 9110, 10.2.3)."""
    header = refusal.headers.get("retry-after", "")
    try:
        if header[:1].isdigit():
            return max(0.0, float(header))
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
