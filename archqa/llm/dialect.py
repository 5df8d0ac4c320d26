"""The parts of the chat-completions protocol that a server supports, learned from its refusals.

Servers differ: some have no strict JSON schema (llama-cpp-python answers 500), reasoning models
take no temperature, newer ones require `max_completion_tokens`, some templates have no system role,
some call one tool at a time, some require the last message to be the user's. The first request uses
everything; when a refusal names a parameter, all later requests do without it. A parameter that is
ignored without a word cannot be learned that way: `first_dialect` knows it from the address.
"""

import json
import re
from enum import IntEnum
from typing import Any
from urllib.parse import urlsplit

from archqa.core.value import FrozenModel
from archqa.llm.model import Message, Request

_LAST_MESSAGE_REFUSED = re.compile(
    r"assistant.{0,80}(?:end of the list|prefill)"
    r"|(?:last role|must end with|end with a).{0,80}(?:user|assistant)"
)
"""How llama.cpp, vLLM (Mistral) and Anthropic say that the last message must not be the model's
own.
"""

_NO_PROVIDER = "requested parameters"
"""How OpenRouter says that no provider of a model supports all that was sent."""

_ANTHROPIC_HOST = "api.anthropic.com"
_OPENROUTER_HOST = "openrouter.ai"

_STRUCTURE_KEYWORDS = (
    "response_format",
    "json_schema",
    "json_object",
    "schema",
    "grammar",
)


class StructuredOutputMode(IntEnum):
    """How strictly a server can enforce a schema, weakest first."""

    TEXT = 0
    JSON = 1
    SCHEMA = 2


class Dialect(FrozenModel):
    """What one model of one server supports.

    `fallback_for` gives the next dialect to try after a refusal. `require_parameters` asks a router
    for a provider that supports all that is sent (OpenRouter).
    """

    structure: StructuredOutputMode = StructuredOutputMode.SCHEMA
    temperature: bool = True
    max_tokens_field: str = "max_tokens"
    system_role: bool = True
    parallel_tools: bool = True
    assistant_last: bool = True
    require_parameters: bool = False

    def arguments(self, request: Request) -> dict[str, Any]:
        """The JSON body of `POST /chat/completions`."""
        arguments: dict[str, Any] = {
            "model": request.model,
            "messages": self._messages(request),
        }
        if request.max_tokens is not None:
            arguments[self.max_tokens_field] = request.max_tokens
        if request.temperature is not None and self.temperature:
            arguments["temperature"] = request.temperature
        if request.output_schema is not None:
            if self.structure is StructuredOutputMode.SCHEMA:
                # Strict servers refuse a schema in which properties may be left out.
                schema = {
                    "name": request.schema_name,
                    "strict": "required" in request.output_schema,
                    "schema": request.output_schema,
                }
                arguments["response_format"] = {
                    "type": "json_schema",
                    "json_schema": schema,
                }
            elif self.structure is StructuredOutputMode.JSON:
                arguments["response_format"] = {"type": "json_object"}
        if request.tools:
            tools = [
                {"type": "function", "function": tool.model_dump()}
                for tool in request.tools
            ]
            arguments["tools"] = tools
            if self.parallel_tools:
                arguments["parallel_tool_calls"] = True
        if self.require_parameters:
            arguments["provider"] = {"require_parameters": True}
        return arguments

    def fallback_for(self, refusal: str, *, structured: bool) -> "Dialect | None":
        """The dialect without the parameter that `refusal` (lower case) names; None if it names
        none of them.

        `structured`: the structure of the reply may be the cause.
        """
        changes: dict[str, object] = {}
        weaker = self.with_weaker_structure() if structured else None
        if self.temperature and "temperature" in refusal:
            changes["temperature"] = False
        elif (
            self.max_tokens_field == "max_tokens" and "max_completion_tokens" in refusal
        ):
            changes["max_tokens_field"] = "max_completion_tokens"
        elif self.system_role and "system" in refusal and "role" in refusal:
            changes["system_role"] = False
        elif self.assistant_last and _LAST_MESSAGE_REFUSED.search(refusal):
            changes["assistant_last"] = False
        elif self.parallel_tools and "parallel_tool_calls" in refusal:
            changes["parallel_tools"] = False
        elif self.require_parameters and _NO_PROVIDER in refusal:
            # More of a router's providers do with one requirement less.
            if weaker is not None:
                return weaker
            changes["require_parameters"] = False
        elif any(keyword in refusal for keyword in _STRUCTURE_KEYWORDS):
            return weaker
        return self.model_copy(update=changes) if changes else None

    def with_weaker_structure(self) -> "Dialect | None":
        """One step from schema to JSON mode to text; None below that."""
        if self.structure is StructuredOutputMode.TEXT:
            return None
        return self.model_copy(
            update={"structure": StructuredOutputMode(self.structure - 1)}
        )

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        messages = list(request.messages)
        if (
            request.output_schema is not None
            and self.structure is not StructuredOutputMode.SCHEMA
        ):
            instruction = "Reply with one JSON object that fits this JSON Schema, and nothing else:"
            schema = json.dumps(request.output_schema, separators=(",", ":"))
            content = f"{messages[-1].content}\n\n{instruction}\n{schema}"
            messages[-1] = messages[-1].model_copy(update={"content": content})
        if not self.system_role:
            messages = _without_system(messages)
        if not self.assistant_last and messages[-1].role == "assistant":
            messages.append(Message(role="user", content="Go on."))
        return [_message_body(message) for message in messages]


def _message_body(message: Message) -> dict[str, Any]:
    """A message in the protocol's form."""
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": message.content,
        }
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    tool_calls = []
    for call in message.tool_calls:
        body: dict[str, Any] = {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        if call.extra_content:
            body["extra_content"] = call.extra_content
        tool_calls.append(body)
    return {
        "role": message.role,
        "content": message.content or None,
        "tool_calls": tool_calls,
    }


def _without_system(messages: list[Message]) -> list[Message]:
    """The messages with the system's instructions at the head of the first user message."""
    instructions = []
    conversation = []
    for message in messages:
        if message.role == "system":
            instructions.append(message.content)
        else:
            conversation.append(message)
    system = "\n\n".join(instructions)
    if not system:
        return conversation
    content = f"{system}\n\n{conversation[0].content}"
    return [Message(role="user", content=content), *conversation[1:]]


def first_dialect(base_url: str) -> Dialect:
    """What to send first to a server.

    Anthropic's endpoint ignores `response_format`, so that the schema stands in the prompt.
    OpenRouter may pass a request to a provider that ignores it, unless told not to.
    Sources, as remembered in November 2026 (neither could be tried): Anthropic, "OpenAI SDK
    compatibility"; OpenRouter, "Provider routing".
    """
    host = (urlsplit(base_url).hostname or "").lower()
    if host == _ANTHROPIC_HOST:
        return Dialect(structure=StructuredOutputMode.TEXT)
    if host == _OPENROUTER_HOST:
        return Dialect(require_parameters=True)
    return Dialect()
