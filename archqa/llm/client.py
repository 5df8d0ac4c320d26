"""A model behind an OpenAI-compatible server (`POST /chat/completions`).

Source of the protocol: the OpenAI API reference, "Chat completions" and "Structured outputs". Other
servers support parts of it (docs/servers.md): see `dialect` for what is learned from their
refusals, `providers` for what is known of them before, `refusals` for what their refusals mean.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from archqa.core.usage import Usage
from archqa.llm import providers
from archqa.llm.dialect import Dialect
from archqa.llm.likelihood import parse_logprobs
from archqa.llm.model import FinishReason, Reply, Request, ToolCall, TransientError
from archqa.llm.prices import Price
from archqa.llm.refusals import error_for, is_filtered, is_too_long
from archqa.llm.transport import HttpResponse, Transport, TransportError
from archqa.safety.server_urls import server_identity
from archqa.safety.whole_characters import whole_json

_DIALECT_STATUS_CODES = frozenset({400, 404, 415, 422, 501})
"""Status codes with which servers reject a parameter that they do not support."""

_FORBIDDEN = 403
"""With which OpenAI refuses the token probabilities of its reasoning models."""

_FILTERED = "content_filter"
"""Gemini names the filter after it."""

_MAX_TOKENS = 10**9
"""Of one request. No model reads or writes a thousandth of it; more is a fault of the server."""


class ServerModel:
    """Sends each request once.

    Learns per model what the server cannot do; raises `TransientError` for passing faults.
    `first_dialect` replaces what is known of the server from its address.
    """

    def __init__(
        self,
        transport: Transport,
        price_of: Callable[[str], Price | None] = lambda _: None,
        first_dialect: Dialect | None = None,
    ) -> None:
        self._transport = transport
        self._price_of = price_of
        self._first_dialect = first_dialect or providers.first_dialect(transport.base_url)
        self._dialects: dict[str, Dialect] = {}
        self._structured_models: set[str] = set()
        self._crashes: Counter[str] = Counter()

    async def ask(self, request: Request) -> Reply:
        """Answer one request; as long as the server objects to the dialect, try a weaker one."""
        dialect = self._known_dialect(request)
        while True:
            start = time.monotonic()
            response = await self._post(dialect.arguments(request))
            if response.status < 400:
                completion = _parse_json(response.body)
                self._learn(request, dialect)
                seconds = time.monotonic() - start
                return parse_completion(completion, self._price_of(request.model), seconds)
            dialect = self._weaker_dialect(response, dialect, request)

    def _known_dialect(self, request: Request) -> Dialect:
        return self._dialects.get(request.model, self._first_dialect)

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
        known_dialect = self._known_dialect(request)
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
        if is_filtered(refusal, text):
            raise error_for(refusal, text, request, server_identity(self._transport.base_url))
        if refusal.status in _DIALECT_STATUS_CODES and not is_too_long(text):
            weaker = dialect.fallback_for(
                text, structured=structured, likelihoods=request.likelihoods
            )
        elif refusal.status == _FORBIDDEN and request.likelihoods and "logprobs" in text:
            weaker = dialect.without_likelihoods()
        elif refusal.status == 500 and structured and self._crashed_before(request):
            weaker = dialect.with_weaker_structure()
        if weaker is not None:
            return weaker
        raise error_for(refusal, text, request, server_identity(self._transport.base_url))

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
        reason = str(choice.get("finish_reason") or "")
        message = choice["message"] if not reason.startswith(_FILTERED) else _message(choice)
        text = message.get("content") or ""
        refusal = message.get("refusal")
        tool_calls = _parse_tool_calls(message)
        return Reply(
            text=refusal or text,
            finish=_parse_finish(reason, text, refusal, tool_calls),
            usage=_parse_usage(completion, price, seconds),
            served_by=_model_name(completion),
            tool_calls=tool_calls,
            tokens=parse_logprobs(choice),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise _not_a_completion(error) from None


def _message(choice: Any) -> Any:
    """The message of a filtered reply, which Gemini leaves out."""
    return choice.get("message") or {}


def _model_name(completion: Any) -> str:
    name = completion.get("model")
    return name if isinstance(name, str) else ""


def _parse_finish(
    reason: str,
    text: str,
    refusal: str | None,
    tool_calls: tuple[ToolCall, ...],
) -> FinishReason:
    if refusal:
        return FinishReason.REFUSED
    if reason.startswith(_FILTERED):
        return FinishReason.FILTERED
    if reason == "error":
        raise ValueError("the provider behind a router failed")
    if reason == "length":
        return FinishReason.LENGTH
    has_content = bool(text.strip() or tool_calls)
    return FinishReason.COMPLETE if has_content else FinishReason.EMPTY


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
        extra_content=row.get("extra_content") or {},
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
