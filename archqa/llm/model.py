"""The contract of the room: a `Model` takes a `Request` and gives a `FhirResponse`.

Whatever else happens to a question (a cache, a limit, another try, a price) is a model that wraps a model.
"""

import hashlib
import json
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Protocol

from pydantic import SerializerFunctionWrapHandler, model_serializer

from archqa.core.usage import Usage
from archqa.core.value import FrozenModel

CHARACTERS_PER_TOKEN = 4


class ToolCall(FrozenModel):
    """What a model wants a tool to do. `arguments` is the JSON text as the model wrote it, checked by nobody yet."""

    id: str
    name: str
    arguments: str = "{}"


class ToolSpec(FrozenModel):
    """A tool as it is offered to a model; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Message(FrozenModel):
    """One turn of a conversation. An assistant's may hold `tool_calls`; a tool's answers the one of `tool_call_id`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @model_serializer(mode="wrap")
    def _without_tools(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A turn without tools is written as it was before there were any: digests stay."""
        return _filled(dump(self), "tool_calls", "tool_call_id")


class Request(FrozenModel):
    """One question to one model. `output_schema` is the JSON Schema the reply must fill; None asks for prose.

    `tools` are those the model may call, several at once; the caller runs them and asks again with what they gave.
    `repetition` tells otherwise equal questions apart, so that asking again is not answered from the cache.
    `likelihoods` asks for the tokens' probabilities, where the server gives them.
    """

    model: str
    messages: tuple[Message, ...]
    output_schema: dict[str, Any] | None = None
    schema_name: str = "output"
    temperature: float | None = 0.0
    max_tokens: int | None = None
    repetition: int = 0
    tools: tuple[ToolSpec, ...] = ()
    likelihoods: bool = False

    @model_serializer(mode="wrap")
    def _without_tools(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As for `Message`."""
        return _filled(dump(self), "tools", "likelihoods")

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical request: equal questions have equal digests, whatever their timeouts."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def characters(self) -> int:
        """Length of the whole prompt: what was said, and what tools were asked for."""
        called = (call for message in self.messages for call in message.tool_calls)
        return sum(len(message.content) for message in self.messages) + sum(
            len(call.arguments) for call in called
        )

    @property
    def tokens(self) -> int:
        """An estimate, before the server counts them: four characters each."""
        return self.characters // CHARACTERS_PER_TOKEN


class FinishReason(StrEnum):
    """Why a reply ended. Only `COMPLETE` holds an answer."""

    COMPLETE = "complete"
    LENGTH = "length"
    FILTERED = "filtered"
    REFUSED = "refused"
    EMPTY = "empty"


class Token(FrozenModel):
    """One token of a reply, and the probability of each that could well have stood in its place."""

    text: str
    likely: dict[str, float] = {}


class Reply(FrozenModel):
    """What a model said. `text` of a refusal is its wording; with `tool_calls` it may be empty."""

    text: str
    finish: FinishReason = FinishReason.COMPLETE
    usage: Usage = Usage()
    served_by: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: tuple[Token, ...] = ()

    @property
    def as_message(self) -> Message:
        """The reply as a turn of the conversation that goes on."""
        return Message(role="assistant", content=self.text, tool_calls=self.tool_calls)


class Model(Protocol):
    """Anything that answers requests. Raises `ModelError`, `ContextTooLong`, `BudgetExceeded`."""

    async def ask(self, request: Request) -> Reply:
        """Answer one request."""
        ...


class TransientError(Exception):
    """The server may do it if asked again; `retry_after` is its own word on when, in seconds."""

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


def _filled(fields: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value or name not in optional}
