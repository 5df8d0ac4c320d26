"""The attempts of a call: what the model was sent, what it replied, and what came of it."""

from typing import Any, NamedTuple

from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.report.page import as_json
from archqa.report.trace_calls import Attempt, Call
from archqa.report.trace_texts import TextCutter, TraceText

_INSTRUCTING_ROLES = ("system", "user")


class ToolCallView(NamedTuple):
    """A tool that a reply calls; `result` is None if the trace has none."""

    name: str
    arguments: TraceText
    result: TraceText | None


class AttemptView(NamedTuple):
    """One request of a call. `received` is what the model was sent that it had not seen yet:
    `received_kind` says whether that is the prompt, a repair, or a message.
    """

    received_kind: str
    received: tuple[TraceText, ...]
    reply: TraceText
    finish: str
    tool_calls: tuple[ToolCallView, ...]
    rejection: TraceText
    kept_in_part: bool
    usage: Usage


def attempt_views(call: Call, cutter: TextCutter) -> tuple[AttemptView, ...]:
    """Return the attempts of a call, with as much of their texts as there is room for."""
    views = []
    following: list[Attempt | None] = [*call.attempts[1:], None]
    earlier: Step | None = None
    for attempt, later in zip(call.attempts, following, strict=True):
        views.append(_attempt_view(attempt, earlier, later, cutter))
        earlier = attempt.step
    return tuple(views)


def _attempt_view(
    attempt: Attempt, earlier: Step | None, later: Attempt | None, cutter: TextCutter
) -> AttemptView:
    step = attempt.step
    kind = "prompt"
    if earlier is not None:
        kind = "repair" if earlier.rejected else "message"
    results = _tool_results(later)
    tool_calls = tuple(_tool_call_view(call, results, cutter) for call in step.tool_calls)
    return AttemptView(
        received_kind=kind,
        received=tuple(cutter.cut_message(message) for message in _received(attempt, earlier)),
        reply=cutter.cut("reply", step.reply),
        finish=step.finish,
        tool_calls=tool_calls,
        rejection=cutter.cut("rejection", step.rejected),
        kept_in_part=step.mended,
        usage=step.usage,
    )


def _received(attempt: Attempt, earlier: Step | None) -> list[dict[str, Any]]:
    """Return the new messages, without the reply before and the results of its tools."""
    if earlier is None:
        return list(attempt.new_messages)
    messages = attempt.new_messages
    return [message for message in messages if message.get("role") in _INSTRUCTING_ROLES]


def _tool_results(later: Attempt | None) -> dict[str, str]:
    """Return the results that the next turn starts with, by the id of the tool call."""
    results = {}
    for message in later.new_messages if later else ():
        if message.get("role") == "tool":
            results[str(message.get("tool_call_id"))] = str(message.get("content") or "")
    return results


def _tool_call_view(
    call: dict[str, Any], results: dict[str, str], cutter: TextCutter
) -> ToolCallView:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else as_json(arguments)
    result = results.get(str(call.get("id")))
    return ToolCallView(
        name=str(call.get("name", "")),
        arguments=cutter.cut("arguments", text),
        result=None if result is None else cutter.cut("result", result),
    )
