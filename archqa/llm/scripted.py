"""Models that say what they are told to: for tests, demonstrations and dry runs."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from archqa.core.usage import Usage
from archqa.llm.model import FinishReason, Reply, Request, ToolCall

ScriptedReply = str | Reply | Exception


class ScriptedModel:
    """Answers from a list of lines in order, or from a function of the request; remembers what it was asked."""

    def __init__(
        self, script: Iterable[ScriptedReply] | Callable[[Request], ScriptedReply]
    ) -> None:
        self._answer = script if callable(script) else _in_order(script)
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Reply:
        """The next line; an exception in the script is raised."""
        self.asked.append(request)
        line = self._answer(request)
        if isinstance(line, Exception):
            raise line
        return (
            line
            if isinstance(line, Reply)
            else Reply(text=line, usage=Usage(calls=1, prompt_tokens=request.tokens))
        )


def refusal_reply(text: str = "I cannot help with that.") -> Reply:
    """A reply in which the model declines."""
    return Reply(text=text, finish=FinishReason.REFUSED, usage=Usage(calls=1))


def truncated_reply(text: str) -> Reply:
    """A reply that ended at its token limit."""
    return Reply(text=text, finish=FinishReason.LENGTH, usage=Usage(calls=1))


def tool_call_reply(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """A reply in which the model calls tools, each by its name and arguments: `calling(("add", {"a": 1, "b": 2}))`."""
    asked = tuple(
        ToolCall(id=f"call_{number}", name=name, arguments=json.dumps(arguments))
        for number, (name, arguments) in enumerate(calls, start=1)
    )
    return Reply(text=text, usage=Usage(calls=1), tool_calls=asked)


def _in_order(script: Iterable[ScriptedReply]) -> Callable[[Request], ScriptedReply]:
    lines = iter(script)

    def answer(_: Request) -> ScriptedReply:
        try:
            return next(lines)
        except StopIteration:
            raise AssertionError("the script has no line left for another request") from None

    return answer
