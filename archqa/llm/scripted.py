"""A model with prepared replies: for tests, demonstrations and dry runs."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from archqa.core.usage import Usage
from archqa.llm.model import FinishReason, Reply, Request, ToolCall

ScriptedReply = str | Reply | Exception


class ScriptedModel:
    """Replies with the items of a script in order, or with a function of the request; keeps the
    requests.
    """

    def __init__(
        self, script: Iterable[ScriptedReply] | Callable[[Request], ScriptedReply]
    ) -> None:
        self._reply_to = script if callable(script) else _in_order(script)
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Reply:
        """The next reply; an exception in the script is raised."""
        self.asked.append(request)
        reply = self._reply_to(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Reply):
            return reply
        return Reply(text=reply, usage=Usage(calls=1, prompt_tokens=request.tokens))


def refusal_reply(text: str = "I cannot help with that.") -> Reply:
    """A reply in which the model declines."""
    return Reply(text=text, finish=FinishReason.REFUSED, usage=Usage(calls=1))


def truncated_reply(text: str) -> Reply:
    """A reply that ended at its token limit."""
    return Reply(text=text, finish=FinishReason.LENGTH, usage=Usage(calls=1))


def tool_call_reply(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """A reply that calls tools by name and arguments: `tool_call_reply(("add", {"a": 1}))`."""
    tool_calls = []
    for number, (name, arguments) in enumerate(calls, start=1):
        tool_call = ToolCall(
            id=f"call_{number}", name=name, arguments=json.dumps(arguments)
        )
        tool_calls.append(tool_call)
    return Reply(text=text, usage=Usage(calls=1), tool_calls=tuple(tool_calls))


def _in_order(script: Iterable[ScriptedReply]) -> Callable[[Request], ScriptedReply]:
    replies = iter(script)

    def next_reply(_: Request) -> ScriptedReply:
        try:
            return next(replies)
        except StopIteration:
            raise AssertionError(
                "the script has no line left for another request"
            ) from None

    return next_reply
