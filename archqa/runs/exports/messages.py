"""Messages of a step as the semantic conventions for generative AI write them, as JSON texts.

Source: opentelemetry.io/docs/specs/semconv/gen-ai (gen-ai-input-messages, -output-messages).
A step that continues a conversation has the new messages only.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archqa.core.step import Step

_SYSTEM = "system"


def system_instructions(step: Step) -> str | None:
    """Return the system messages; None if there are none."""
    texts = [str(one.get("content", "")) for one in step.messages if one.get("role") == _SYSTEM]
    return _json([{"type": "text", "content": text} for text in texts]) if texts else None


def input_messages(step: Step) -> str:
    """Return all other messages of the request."""
    others = [message for message in step.messages if message.get("role") != _SYSTEM]
    return _json([_message(message) for message in others])


def output_messages(step: Step, finish_reason: str) -> str:
    """Return the reply."""
    reply = {"role": "assistant", "content": step.reply, "tool_calls": step.tool_calls}
    return _json([{**_message(reply), "finish_reason": finish_reason}])


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": message.get("role", ""), "parts": list(_parts(message))}


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content") or ""
    if message.get("role") == "tool":
        call_id = message.get("tool_call_id", "")
        yield {"type": "tool_call_response", "id": call_id, "response": content}
        return
    if content:
        yield {"type": "text", "content": content}
    for call in message.get("tool_calls") or ():
        yield {
            "type": "tool_call",
            "id": call.get("id"),
            "name": call.get("name"),
            "arguments": call.get("arguments"),
        }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
