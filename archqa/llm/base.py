"""The contract of the room: a `Model` takes a `Request` and gives a `Reply`.

Whatever else happens to a question (a cache, a limit, another try, a price) is a model that wraps a model.
"""

import hashlib
import json
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Protocol

from archqa.core.usage import Usage
from archqa.core.value import Value

CHARACTERS_PER_TOKEN = 4


class Message(Value):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Request(Value):
    """One question to one model. `output_schema` is the JSON Schema the reply must fill; None asks for prose.

    `repetition` tells otherwise equal questions apart, so that asking again is not answered from the cache.
    """

    model: str
    messages: tuple[Message, ...]
    output_schema: dict[str, Any] | None = None
    schema_name: str = "output"
    temperature: float | None = 0.0
    max_tokens: int | None = None
    repetition: int = 0

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical request: equal questions have equal digests, whatever their timeouts."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def characters(self) -> int:
        """Length of the whole prompt."""
        return sum(len(message.content) for message in self.messages)

    @property
    def tokens(self) -> int:
        """An estimate, before the server counts them: four characters each."""
        return self.characters // CHARACTERS_PER_TOKEN


class Finish(StrEnum):
    """Why a reply ended. Only `COMPLETE` holds an answer."""

    COMPLETE = "complete"
    LENGTH = "length"
    FILTERED = "filtered"
    REFUSED = "refused"
    EMPTY = "empty"


class Reply(Value):
    """What a model said. `text` of a refusal is its wording."""

    text: str
    finish: Finish = Finish.COMPLETE
    usage: Usage = Usage()
    served_by: str = ""


class Model(Protocol):
    """Anything that answers requests. Raises `ModelError`, `ContextTooLong`, `BudgetExceeded`."""

    async def ask(self, request: Request) -> Reply:
        """Answer one request."""
        ...


class Transient(Exception):
    """The server may do it if asked again; `retry_after` is its own word on when, in seconds."""

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after
