"""A model behind an OpenAI-compatible server (`POST /chat/completions`).

Source of the protocol: the OpenAI API reference, "Chat completions" and "Structured outputs". Other servers
(vLLM, Ollama, llama.cpp, Azure's v1 endpoint) speak parts of it; see `dialect`.
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
    ArchqaError,
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelNotFound,
)
from archqa.llm.dialect import Dialect
from archqa.llm.likelihood import parse_logprobs
from archqa.llm.model import FinishReason, Reply, Request, ToolCall, TransientError
from archqa.llm.prices import Price
from archqa.llm.transport import HttpResponse, Transport, TransportError

TRANSIENT_STATUS_CODES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FINISH = {"length": FinishReason.LENGTH, "content_filter": FinishReason.FILTERED}

_TOO_LONG = re.compile(r"context[ _](?:length|window|size)|prompt is too long")
"""How OpenAI, Azure, vLLM and llama.cpp say that a prompt does not fit (lower case)."""

_NO_TOOLS = re.compile(
    r"\btools?\b.{0,80}(?:not support|unsupported|requires|unexpected)|not support.{0,40}\btools?\b"
)
"""How Ollama, vLLM and llama.cpp say that a model, or the server as it was started, calls no tools (lower case)."""

_CODE = re.compile(r"[a-z0-9_.-]{1,40}")


class ServerModel:
    """Asks one server, once. Learns per model what the server cannot do; raises `TransientError` for what may pass."""

    def __init__(
        self, wire: Transport, price_of: Callable[[str], Price | None] = lambda _: None
    ) -> None:
        self._wire = wire
        self._price_of = price_of
        self._dialects: dict[str, Dialect] = {}
        self._proven: set[str] = set()
        self._crashes: Counter[str] = Counter()

    async def ask(self, request: Request) -> Reply:
        """Answer one request, weakening the dialect as long as the server objects to it."""
        dialect: Dialect | None = self._dialects.get(request.model, Dialect())
        while dialect is not None:
            began = time.monotonic()
            answer = await self._post(dialect.arguments(request))
            if answer.status >= 400:
                dialect = self._after_refusal(answer, dialect, request)
                continue
            completion = _read_json(answer.body)
            self._learn(request, dialect)
            return parse_completion(
                completion, self._price_of(request.model), time.monotonic() - began
            )
        raise ModelError(f"{self._wire.base_url} understands no form of the request.")

    async def _post(self, arguments: dict[str, Any]) -> HttpResponse:
        # Half a character (a lone surrogate) goes as JSON escapes it.
        body = json.dumps(arguments, separators=(",", ":")).encode()
        try:
            return await self._wire.post("/chat/completions", body)
        except TransportError as error:
            raise TransientError(str(error)) from None

    def _learn(self, request: Request, dialect: Dialect) -> None:
        """A form that worked is kept; of several that did, the firmest. Prose proves nothing about structure."""
        known = self._dialects.get(request.model, Dialect())
        if request.output_schema is None:
            self._dialects[request.model] = dialect.model_copy(
                update={"structure": known.structure}
            )
            return
        if request.model not in self._proven or dialect.structure >= known.structure:
            self._dialects[request.model] = dialect
        self._proven.add(request.model)

    def _in_question(self, request: Request, dialect: Dialect) -> bool:
        """Whether the structure asked for may be what the server objects to: it is firmer than any that worked."""
        if request.output_schema is None:
            return False
        return (
            request.model not in self._proven
            or dialect.structure > self._dialects[request.model].structure
        )

    def _after_refusal(self, refusal: HttpResponse, dialect: Dialect, request: Request) -> Dialect:
        """A weaker dialect to try at once; raises what the refusal means otherwise."""
        words = refusal.body.decode("utf-8", "replace").lower()
        structured = self._in_question(request, dialect)
        if refusal.status in {400, 404, 415, 422, 501} and not _TOO_LONG.search(words):
            weaker = dialect.fallback_for(words, structured=structured)
            if weaker is not None:
                return weaker
        if refusal.status == 500 and structured and self._crashed_before(request):
            weaker = dialect.with_weaker_structure()
            if weaker is not None:
                return weaker
        if (
            request.tools
            and refusal.status in {400, 404, 422, 500, 501}
            and _NO_TOOLS.search(words)
        ):
            raise ModelError(
                f"{self._wire.base_url} cannot let {request.model} call tools.\n"
                "Take a model that can, or a --pipeline that needs none (`archqa list pipelines`)."
            )
        raise _meaning(refusal, words, request.model, self._wire.base_url)

    def _crashed_before(self, request: Request) -> bool:
        """Servers without json_schema may crash on it instead of refusing: twice on one request is no passing fault."""
        self._crashes[request.digest] += 1
        return self._crashes[request.digest] > 1


def parse_completion(completion: Any, price: Price | None, seconds: float = 0.0) -> Reply:
    """The reply in a chat completion, as its JSON has it. Raises `TransientError` for what is not one."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content") or "", message.get("refusal")
        calls = _tool_calls(message)
        finish = _finish(choice.get("finish_reason"), text, refusal, calls)
        usage = _usage(completion, price, seconds)
        served_by = completion.get("model") or ""
        return Reply(
            text=refusal or text,
            finish=finish,
            usage=usage,
            served_by=served_by,
            tool_calls=calls,
            tokens=parse_logprobs(choice),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise TransientError(
            f"the reply is not a chat completion ({type(error).__name__})"
        ) from None


def _finish(
    reason: str | None, text: str, refusal: str | None, calls: tuple[ToolCall, ...]
) -> FinishReason:
    if refusal:
        return FinishReason.REFUSED
    finish = _FINISH.get(reason or "", FinishReason.COMPLETE)
    return (
        FinishReason.EMPTY
        if finish is FinishReason.COMPLETE and not text.strip() and not calls
        else finish
    )


def _tool_calls(message: Any) -> tuple[ToolCall, ...]:
    """The tools a message calls. Some servers number no calls, and some give arguments as an object."""
    rows = message.get("tool_calls") or ()
    return tuple(_tool_call(row, number) for number, row in enumerate(rows, start=1))


def _tool_call(row: Any, number: int) -> ToolCall:
    asked = row["function"]
    arguments = asked.get("arguments") or {}
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=row.get("id") or f"call_{number}", name=asked["name"], arguments=written)


def _usage(completion: Any, price: Price | None, seconds: float) -> Usage:
    """What the server counted; a reply whose tokens it did not count was still paid, at an unknown cost."""
    prompt, said = (
        _count(completion, "usage", "prompt_tokens"),
        _count(completion, "usage", "completion_tokens"),
    )
    if prompt is None or said is None:
        return Usage(calls=1, cost_usd=None, seconds=seconds)
    cached = _count(completion, "usage", "prompt_tokens_details", "cached_tokens") or 0
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        cached_prompt_tokens=cached,
        completion_tokens=said,
        cost_usd=price.cost(prompt, cached, said) if price else None,
        seconds=seconds,
    )


def _count(completion: Any, *way: str) -> int | None:
    found = completion
    for step in way:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None


def _read_json(body: bytes) -> Any:
    """A body that should be JSON. Raises `TransientError`: a page of a proxy, or half a reply, may pass."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TransientError(
            f"the reply is not a chat completion ({type(error).__name__})"
        ) from None


def _meaning(refusal: HttpResponse, words: str, model: str, url: str) -> Exception:
    """What a status means for whoever must act. Server texts can quote the prompt, so none is passed on."""
    status = refusal.status
    if status in {401, 403}:
        return AuthenticationFailed(
            f"{url} refuses the key (HTTP {status}).\nSet OPENAI_API_KEY to a key it accepts."
        )
    if status == 413 or (status in {400, 422} and _TOO_LONG.search(words)):
        return ContextTooLong(
            f"The prompt and the reply's max_tokens do not fit {model}'s context window."
        )
    if status == 404:
        return ModelNotFound(
            f"{url} does not know the model {model!r}.\nList its models with: archqa list models"
        )
    if status in TRANSIENT_STATUS_CODES or status >= 500:
        return TransientError(f"HTTP {status}", _retry_after(refusal))
    return _refused_request(status, _code(refusal), url)


def _code(refusal: HttpResponse) -> str:
    """The error's code, where it has one that is a word and no text."""
    try:
        code = str(json.loads(refusal.body)["error"]["code"] or "")
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return code if _CODE.fullmatch(code) else ""


def _refused_request(status: int, code: str, url: str) -> ArchqaError:
    named = f" ({code})" if code else ""
    return ModelError(
        f"{url} refuses the request with HTTP {status}{named}.\nSee `archqa doctor` for what it supports."
    )


def _retry_after(refusal: HttpResponse) -> float | None:
    """Seconds to wait, given as such or as an HTTP date (RFC 9110, 10.2.3)."""
    said = refusal.headers.get("retry-after", "")
    try:
        seconds = (
            float(said)
            if said[:1].isdigit()
            else parsedate_to_datetime(said).timestamp() - time.time()
        )
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds)
