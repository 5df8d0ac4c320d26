"""What a model is: a `Model` answers a `Request` with a `Reply`.

Caching, rate limits, retries and budgets are models that wrap a model.
"""

import hashlib
import json
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer

from archqa.core.usage import Usage
from archqa.core.value import FrozenModel

CHARACTERS_PER_TOKEN = 4


class ToolCall(FrozenModel):
    """A model's call of a tool.

    `arguments` is the JSON text as the model wrote it, not yet validated. `extra_content` is what
    a server wants back with the call (Gemini's thought signatures); it is not looked into.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra_content: dict[str, Any] = {}

    @model_serializer(mode="wrap")
    def _without_extra_content(
        self, dump: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        """As for `Message`."""
        return _without_empty(dump(self), "extra_content")


class ToolSpec(FrozenModel):
    """A tool on offer to a model; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Message(FrozenModel):
    """One message of a conversation.

    An assistant's may have `tool_calls`; a tool's answers the call `tool_call_id`.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def characters(self) -> int:
        """Length of the content and of the tool calls' arguments."""
        return len(self.content) + sum(len(call.arguments) for call in self.tool_calls)

    @model_serializer(mode="wrap")
    def _without_tools(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A message without tools is serialised without their fields, so that digests of earlier
        versions hold.
        """
        return _without_empty(dump(self), "tool_calls", "tool_call_id")


class Request(FrozenModel):
    """One request to one model.

    `output_schema` is the JSON Schema of the reply; None asks for prose.

    `tools` are those that the model may call; the caller runs them and sends another request with
    their results. `repetition` distinguishes otherwise equal requests, so that a repeated one is
    not answered from the cache.
    """

    model: str
    messages: tuple[Message, ...]
    output_schema: dict[str, Any] | None = None
    schema_name: str = "output"
    temperature: float | None = 0.0
    max_tokens: int | None = None
    repetition: int = 0
    tools: tuple[ToolSpec, ...] = ()

    @model_serializer(mode="wrap")
    def _without_tools(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As for `Message`."""
        return _without_empty(dump(self), "tools")

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical request: equal requests have equal digests."""
        canonical = json.dumps(
            self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False
        )
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def characters(self) -> int:
        """Length of the whole prompt: the messages, and the arguments of their tool calls."""
        return sum(message.characters for message in self.messages)

    @property
    def tokens(self) -> int:
        """The estimated number of tokens: four characters each."""
        return self.characters // CHARACTERS_PER_TOKEN


class FinishReason(StrEnum):
    """Why a reply ended. Only `COMPLETE` holds an answer; `REASONING` holds thoughts alone."""

    COMPLETE = "complete"
    LENGTH = "length"
    FILTERED = "filtered"
    REFUSED = "refused"
    EMPTY = "empty"
    REASONING = "reasoning"


class Reply(FrozenModel):
    """A model's reply. `text` of a refusal is its wording; with `tool_calls` it may be empty."""

    model_config = ConfigDict(
        extra="ignore"
    )  # A cache may hold fields of another version.

    text: str
    finish: FinishReason = FinishReason.COMPLETE
    usage: Usage = Usage()
    served_by: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def as_message(self) -> Message:
        """The reply as a message of the conversation."""
        return Message(role="assistant", content=self.text, tool_calls=self.tool_calls)


class Model(Protocol):
    """Anything that answers requests. Raises `ModelError`, `ContextTooLong`, `BudgetExceeded`."""

    async def ask(self, request: Request) -> Reply:
        """Answer one request."""
        ...


class OfferedModel(NamedTuple):
    """A model in a server's list; an empty text and None stand for what the server does not say.

    `context` is what a prompt and its reply may have together, `trained_context` what the model was
    trained on: a server may be started with less.
    """

    id: str
    owned_by: str = ""
    context: int | None = None
    trained_context: int | None = None


def find_offered(name: str, models: list[OfferedModel]) -> OfferedModel | None:
    """Return the model of this name; Ollama's list has the tag `:latest`, which requests may omit."""
    for model in models:
        if model.id in (name, f"{name}:latest"):
            return model
    return None


class TransientError(Exception):
    """A fault that may pass; `retry_after` is the server's own delay in seconds, if it named one."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def _without_empty(fields: dict[str, Any], *optional: str) -> dict[str, Any]:
    """The fields without those of `optional` that are empty."""
    return {
        name: value for name, value in fields.items() if value or name not in optional
    }
