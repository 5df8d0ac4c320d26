"""What the body of a reply holds: the text of the answer, tool calls and counts of tokens.

Source: the OpenAI API reference, "Chat completions". Servers of local and of reasoning models differ
from it in these ways, and are read all the same:

1. The body begins with comments that keep the connection open (OpenRouter), or is a stream of
   events that was not asked for.
2. The content is a list of parts, some of them thoughts (Mistral), or JSON that is not text.
3. Thoughts stand before the answer, between marks of the model's own. What follows the last mark
   is the answer; the thoughts are dropped.
4. The whole answer stands where thoughts belong, and the content is empty (vLLM, LM Studio). It is
   the answer only if it is JSON and nothing else.
"""

import json
import re
from typing import Any

from archqa.core.usage import Usage
from archqa.llm.model import FinishReason, Reply, ToolCall, TransientError
from archqa.llm.prices import Price
from archqa.safety.text import json_without_surrogates

_FILTERED = "content_filter"
"""Gemini names the filter after it."""

_MAX_TOKENS = 10**9
"""Of one request. No model reads or writes a thousandth of it; more is a fault of the server."""

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message with thoughts: vLLM, DeepSeek and llama.cpp; OpenRouter; Ollama."""

_TAG = r"(?:think|thinking|thought|thoughts|reasoning|reflection|seed:think)"
_THOUGHT_START = re.compile(
    rf"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)|<{_TAG}>|\[THINK\]"
    r"|<\|START_THINKING\|>|◁think▷)"
)
"""How a text begins with thoughts: gpt-oss; Qwen, DeepSeek and others; Mistral; Command; Kimi."""

_THOUGHT_END = re.compile(
    rf"<\|channel\|>final(?:[^<]|<\|constrain\|>)*<\|message\|>|</{_TAG}>|\[/THINK\]|<\|END_THINKING\|>|◁/think▷"
    r"|\Aanalysis.*assistantfinal",
    re.DOTALL,
)
"""The last one is what is left of gpt-oss's marks without its control tokens."""

_TEMPLATE_TOKENS = re.compile(
    r"(?:<\|[\w ]{2,30}\|>|</s>|<end_of_turn>|<eos>)(?:\s|<\|[\w ]{2,30}\|>|</s>)*\Z"
)
"""Marks of a model's template at the end, which its server should have removed."""

_THOUGHT_TYPES = ("thinking", "reasoning", "reasoning_text", "redacted_thinking")

_JSON_STARTS = ("{", "[", '"', "```")
_JSON_ALONE = re.compile(r"\{.*\}|```.*```", re.DOTALL)


def completion_in(body: bytes) -> Any:
    """The chat completion in the body of a response.

    Raises `TransientError` for what is neither JSON nor a whole stream of events.
    """
    try:
        lines = body.decode("utf-8-sig").lstrip().split("\n")
        while lines[0].startswith(":") or (not lines[0].strip() and lines[1:]):
            del lines[0]
        if not lines[0].startswith(("data:", "event:")):
            return json_without_surrogates(json.loads("\n".join(lines)))
        events = [line[5:].strip() for line in lines if line.startswith("data:")]
        if events[-1] == "[DONE]":
            del events[-1]
        return json_without_surrogates(_join_events(list(map(json.loads, events))))
    except (
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # A proxy's error page or half a reply: it may pass.
        raise not_a_completion(error) from None


def _join_events(events: list[Any]) -> dict[str, Any]:
    """The completion that a stream of chunks adds up to."""
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    whole: dict[str, Any] = {"choices": [{"message": message}]}
    [choice] = whole["choices"]
    for event in events:
        whole["model"] = event.get("model") or whole.get("model")
        whole["usage"] = event.get("usage") or whole.get("usage")
        for part in event["choices"][:1]:
            choice["finish_reason"] = part.get("finish_reason") or choice.get(
                "finish_reason"
            )
            delta = part.get("delta") or part.get("message") or {}
            for name in ("content", "refusal", *_REASONING_FIELDS):
                if delta.get(name):
                    message[name] = message.get(name, "") + delta[name]
            for row in delta.get("tool_calls") or ():
                call = calls.setdefault(row.get("index", 0), {**row, "function": {}})
                for name, text in row["function"].items():
                    call["function"][name] = call["function"].get(name, "") + (
                        text or ""
                    )
    if not choice.get("finish_reason"):
        raise ValueError("the stream was cut off")
    message["tool_calls"] = list(calls.values())
    return whole


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
        thoughts, text = _split_message(message)
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
            finish = FinishReason.REASONING if thoughts else FinishReason.EMPTY
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


def _split_message(message: Any) -> tuple[str, str]:
    """The thoughts and the answer of a message."""
    thoughts, text = _split_content(message.get("content") or "")
    for name in _REASONING_FIELDS:
        reasoning = message.get(name)
        if reasoning and not text:
            thoughts, text = _split_content(reasoning)
            if not thoughts:
                thoughts = text
                text = text if _JSON_ALONE.fullmatch(text.strip()) else ""
    return thoughts, text


def _split_content(content: Any) -> tuple[str, str]:
    """The thoughts and the answer in a content: a text, a list of parts, or other JSON."""
    if isinstance(content, dict):
        content = [content] if "text" in content else json.dumps(content)
    if isinstance(content, list):
        answers = []
        thoughts = ""
        for part in content:
            if isinstance(part, str):
                answers.append(part)
            elif "text" in part and part.get("type") not in _THOUGHT_TYPES:
                answers.append(part["text"])
            else:
                thoughts = "in another part"
        return thoughts, _split_content("".join(answers))[1]
    text = _TEMPLATE_TOKENS.sub("", content)
    begins = _THOUGHT_START.match(text)
    ends = list(_THOUGHT_END.finditer(text))
    if ends and (begins or not text.lstrip().startswith(_JSON_STARTS)):
        return text[: ends[-1].start()], text[ends[-1].end() :].lstrip()
    if begins:
        return text[begins.end() :], ""
    return "", text


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
