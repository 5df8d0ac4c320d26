"""What of the chat-completions protocol a server speaks, learned from its refusals, never from its name.

Servers differ: some have no strict JSON schema (llama-cpp-python answers 500), reasoning models take no
temperature, newer ones want `max_completion_tokens`, some templates have no system role, some call one tool at a
time, some want the last word from the user. A request is first made in full; a refusal that names a parameter drops
that parameter for good.
"""

import json
import re
from enum import IntEnum
from typing import Any

from archqa.core.value import FrozenModel
from archqa.llm.model import Message, Request

LIKELIEST = 5
"""Alternatives asked for at each token, where their probabilities are asked for."""


_ABOUT_THE_LAST = re.compile(
    r"assistant.{0,80}(?:end of the list|prefill)|(?:last role|must end with|end with a).{0,80}(?:user|assistant)"
)
"""How llama.cpp, vLLM (Mistral) and Anthropic say that a conversation must not end with the model's own turn."""


class StructuredOutputMode(IntEnum):
    """How firmly a server can be held to a schema."""

    TEXT = 0
    JSON = 1
    SCHEMA = 2


class Dialect(FrozenModel):
    """One server's (and model's) ways. `weaker` gives the next to try after a refusal."""

    structure: StructuredOutputMode = StructuredOutputMode.SCHEMA
    temperature: bool = True
    max_tokens_field: str = "max_tokens"
    system_role: bool = True
    parallel_tools: bool = True
    assistant_last: bool = True
    likelihoods: bool = True

    def arguments(self, request: Request) -> dict[str, Any]:
        """The keyword arguments of `chat.completions.create`."""
        arguments: dict[str, Any] = {"model": request.model, "messages": self._messages(request)}
        if request.max_tokens is not None:
            arguments[self.max_tokens_field] = request.max_tokens
        if request.temperature is not None and self.temperature:
            arguments["temperature"] = request.temperature
        if request.output_schema is not None and self.structure is not StructuredOutputMode.TEXT:
            arguments["response_format"] = self._response_format(request)
        if request.tools:
            arguments |= self._tools(request)
        if request.likelihoods and self.likelihoods:
            arguments |= {"logprobs": True, "top_logprobs": LIKELIEST}
        return arguments

    def fallback_for(self, refusal: str, *, structured: bool) -> "Dialect | None":
        """The dialect that avoids what `refusal` (lower case) complains of; None if it complains of something else."""
        if self.likelihoods and "logprobs" in refusal:
            return self.model_copy(update={"likelihoods": False})
        if self.temperature and "temperature" in refusal:
            return self.model_copy(update={"temperature": False})
        if self.max_tokens_field == "max_tokens" and "max_completion_tokens" in refusal:
            return self.model_copy(update={"max_tokens_field": "max_completion_tokens"})
        if self.system_role and "system" in refusal and "role" in refusal:
            return self.model_copy(update={"system_role": False})
        if self.assistant_last and _ABOUT_THE_LAST.search(refusal):
            return self.model_copy(update={"assistant_last": False})
        if self.parallel_tools and "parallel_tool_calls" in refusal:
            return self.model_copy(update={"parallel_tools": False})
        if structured and self.structure > StructuredOutputMode.TEXT and _about_structure(refusal):
            return self.with_weaker_structure()
        return None

    def with_weaker_structure(self) -> "Dialect | None":
        """One step from schema to JSON mode to text; None below that."""
        if self.structure is StructuredOutputMode.TEXT:
            return None
        return self.model_copy(update={"structure": StructuredOutputMode(self.structure - 1)})

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        messages = list(request.messages)
        if request.output_schema is not None and self.structure is not StructuredOutputMode.SCHEMA:
            messages[-1] = _with_schema(messages[-1], request.output_schema)
        if not self.system_role:
            messages = _without_system(messages)
        if not self.assistant_last and messages[-1].role == "assistant":
            messages.append(Message(role="user", content="Go on."))
        return [_wire(message) for message in messages]

    def _tools(self, request: Request) -> dict[str, Any]:
        tools = [{"type": "function", "function": tool.model_dump()} for tool in request.tools]
        return {"tools": tools} | ({"parallel_tool_calls": True} if self.parallel_tools else {})

    def _response_format(self, request: Request) -> dict[str, Any]:
        if self.structure is StructuredOutputMode.JSON:
            return {"type": "json_object"}
        schema = {"name": request.schema_name, "strict": True, "schema": request.output_schema}
        return {"type": "json_schema", "json_schema": schema}


def _wire(message: Message) -> dict[str, Any]:
    """A turn as the protocol has it."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": message.content or None, "tool_calls": calls}


def _about_structure(refusal: str) -> bool:
    return any(
        word in refusal
        for word in ("response_format", "json_schema", "json_object", "schema", "grammar")
    )


def _with_schema(message: Message, schema: dict[str, Any]) -> Message:
    said = f"{message.content}\n\nReply with one JSON object that fits this JSON Schema, and nothing else:\n"
    return message.model_copy(update={"content": said + json.dumps(schema, separators=(",", ":"))})


def _without_system(messages: list[Message]) -> list[Message]:
    """The instructions move to the head of the first user turn."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    rest = [message for message in messages if message.role != "system"]
    if not system:
        return rest
    return [Message(role="user", content=f"{system}\n\n{rest[0].content}"), *rest[1:]]
