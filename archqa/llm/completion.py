"""What a chat completion holds: text, tool calls and counts of tokens.

Source: the OpenAI API reference, "Chat completions"; vLLM and llama.cpp give the same, with the gaps
that are noted here.
"""

import json
from typing import Any

from archqa.core.usage import Usage
from archqa.llm.model import FinishReason, Reply, ToolCall, TransientError
from archqa.llm.prices import Price

_FILTERED = "content_filter"
"""Gemini names the filter after it."""

_MAX_TOKENS = 10**9
"""Of one request. No model reads or writes a thousandth of it; more is a fault of the server."""


def parse_completion(
    completion: Any, price: Price | None, seconds: float = 0.0
) -> Reply:
    """The reply in the JSON of a chat completion. Raises `TransientError` if it is not one."""
    try:
        choice = completion["choices"][0]
        reason = str(choice.get("finish_reason") or "")
        is_filtered = reason.startswith(_FILTERED)
        # Gemini leaves the message of a filtered reply out.
        message = (choice.get("message") or {}) if is_filtered else choice["message"]
        text = message.get("content") or ""
        refusal = message.get("refusal")
        tool_calls = _parse_tool_calls(message)
        if refusal:
            finish = FinishReason.REFUSED
        elif is_filtered:
            finish = FinishReason.FILTERED
        elif reason == "error":
            raise ValueError("the provider behind a router failed")
        elif reason == "length":
            finish = FinishReason.LENGTH
        elif text.strip() or tool_calls:
            finish = FinishReason.COMPLETE
        else:
            finish = FinishReason.EMPTY
        model = completion.get("model")
        return Reply(
            text=refusal or text,
            finish=finish,
            usage=_parse_usage(completion, price, seconds),
            served_by=model if isinstance(model, str) else "",
            tool_calls=tool_calls,
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise not_a_completion(error) from None


def not_a_completion(error: Exception) -> TransientError:
    """The error for a reply of another form, which may be a proxy's error page or half a reply."""
    return TransientError(
        f"the reply is not a chat completion ({type(error).__name__})"
    )


def _parse_tool_calls(message: Any) -> tuple[ToolCall, ...]:
    """The calls of a message.

    Some servers give them no id, and some give arguments as an object instead of text.
    """
    calls = []
    for number, row in enumerate(message.get("tool_calls") or (), start=1):
        function = row["function"]
        arguments = function.get("arguments") or {}
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        call = ToolCall(
            id=row.get("id") or f"call_{number}",
            name=function["name"],
            arguments=arguments,
            extra_content=row.get("extra_content") or {},
        )
        calls.append(call)
    return tuple(calls)


def _parse_usage(completion: Any, price: Price | None, seconds: float) -> Usage:
    """The tokens that the server counted.

    A reply with no counts was paid as well, at an unknown cost.
    """
    prompt_tokens = _count(completion, "usage", "prompt_tokens")
    completion_tokens = _count(completion, "usage", "completion_tokens")
    if prompt_tokens is None or completion_tokens is None:
        return Usage(calls=1, cost_usd=None, seconds=seconds)
    cached_tokens = (
        _count(completion, "usage", "prompt_tokens_details", "cached_tokens") or 0
    )
    cached_tokens = min(cached_tokens, prompt_tokens)
    cost = (
        price.cost(prompt_tokens, cached_tokens, completion_tokens) if price else None
    )
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
