"""The tool calls of a reply: the server's own, else those that a model wrote as JSON.

Not every server has tool calls, and some models write theirs into the text.
"""

import json
from typing import Any

from pydantic import ConfigDict, Field

from archqa.core.value import FrozenModel
from archqa.llm.model import Reply, ToolCall
from archqa.llm.structured import Rejected, parse_output


class _WrittenCall(FrozenModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, Any] | str = {}


class _WrittenCalls(FrozenModel):
    model_config = ConfigDict(extra="ignore")

    tool_calls: tuple[_WrittenCall, ...] = Field(min_length=1)


def tool_calls_of(reply: Reply) -> tuple[ToolCall, ...]:
    """Return the calls in a reply; those that stand in its text have no id. Empty without any."""
    if reply.tool_calls:
        return reply.tool_calls
    try:
        written = parse_output(reply.text, _WrittenCalls)
    except Rejected:
        return ()
    return tuple(_tool_call(call) for call in written.tool_calls)


def _tool_call(call: _WrittenCall) -> ToolCall:
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id="", name=call.name, arguments=arguments)
