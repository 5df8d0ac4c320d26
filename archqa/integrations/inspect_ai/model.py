"""Inspect's model as a model of archqa: every call is an event of Inspect's log."""

import json
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.tool import ToolCall as InspectToolCall
from inspect_ai.tool import ToolInfo, ToolParams
from inspect_ai.util import JSONSchema

from archqa.core.usage import Usage
from archqa.errors import ContextTooLong
from archqa.llm.model import FinishReason, Message, Reply, Request, ToolCall, ToolSpec
from archqa.llm.structured import RecursiveSchemaError, without_references

_UNREADABLE = "(arguments that are no JSON)"
"""Stands for arguments that Inspect could not read; archqa then tells the model so."""


class InspectModel:
    """Asks the model that Inspect evaluates (`get_model()`), which caches, retries and counts.

    What a provider wants back with a reply, such as its reasoning, is kept and sent with it.
    """

    def __init__(self) -> None:
        self._replies: dict[tuple[str, tuple[str, ...]], ChatMessageAssistant] = {}

    async def ask(self, request: Request) -> Reply:
        """Answer one request. Raises `ContextTooLong`, and what Inspect raises."""
        output = await get_model().generate(
            input=[self._message(message, request) for message in request.messages],
            tools=[_tool(tool) for tool in request.tools],
            config=_config(request),
        )
        if output.choices and output.stop_reason == "model_length":
            raise ContextTooLong("The prompt does not fit the model's context window.")
        reply = _reply(output)
        if output.choices:
            self._replies[_identity(reply.as_message)] = output.message
        return reply

    def _message(self, message: Message, request: Request) -> ChatMessage:
        if message.role == "system":
            return ChatMessageSystem(content=message.content)
        if message.role == "user":
            return ChatMessageUser(content=message.content)
        if message.role == "tool":
            return ChatMessageTool(
                content=message.content,
                tool_call_id=message.tool_call_id,
                function=_called_tool(message.tool_call_id, request),
            )
        reply = self._replies.get(_identity(message))
        return reply if reply is not None else _assistant_message(message)


def _identity(message: Message) -> tuple[str, tuple[str, ...]]:
    return message.content, tuple(call.id for call in message.tool_calls)


def _called_tool(call_id: str, request: Request) -> str | None:
    for message in request.messages:
        for call in message.tool_calls:
            if call.id == call_id:
                return call.name
    return None


def _assistant_message(message: Message) -> ChatMessageAssistant:
    calls = [
        InspectToolCall(id=call.id, function=call.name, arguments=_arguments(call))
        for call in message.tool_calls
    ]
    return ChatMessageAssistant(content=message.content, tool_calls=calls or None)


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _tool(tool: ToolSpec) -> ToolInfo:
    parameters = {"type": "object", **without_references(tool.parameters)}
    return ToolInfo(
        name=tool.name,
        description=tool.description,
        parameters=ToolParams.model_validate(parameters),
    )


def _config(request: Request) -> GenerateConfig:
    """The request's own settings; those that it leaves open are Inspect's."""
    values: dict[str, Any] = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "response_schema": _response_schema(request),
    }
    return GenerateConfig(**{name: value for name, value in values.items() if value is not None})


def _response_schema(request: Request) -> ResponseSchema | None:
    """The schema of the reply; None for prose, and where the prompt alone describes it."""
    if request.output_schema is None:
        return None
    try:
        schema = without_references(request.output_schema)
    except RecursiveSchemaError:
        return None
    json_schema = JSONSchema.model_validate(schema)
    return ResponseSchema(name=request.schema_name, json_schema=json_schema, strict=True)


def _reply(output: ModelOutput) -> Reply:
    calls: tuple[ToolCall, ...] = ()
    if output.choices:
        calls = tuple(map(_tool_call, output.message.tool_calls or ()))
    return Reply(
        text=output.completion,
        finish=_finish(output, calls),
        usage=_usage(output),
        served_by=output.model,
        tool_calls=calls,
    )


def _tool_call(call: InspectToolCall) -> ToolCall:
    arguments = _UNREADABLE if call.parse_error else json.dumps(call.arguments, ensure_ascii=False)
    return ToolCall(id=call.id, name=call.function, arguments=arguments)


def _finish(output: ModelOutput, calls: tuple[ToolCall, ...]) -> FinishReason:
    if not output.choices:
        return FinishReason.EMPTY
    if output.stop_reason == "content_filter":
        return FinishReason.FILTERED
    if output.stop_reason == "max_tokens":
        return FinishReason.LENGTH
    has_content = bool(output.completion.strip() or calls)
    return FinishReason.COMPLETE if has_content else FinishReason.EMPTY


def _usage(output: ModelOutput) -> Usage:
    seconds = output.time or 0.0
    if output.usage is None:
        return Usage(calls=1, cost_usd=None, seconds=seconds)
    cached = output.usage.input_tokens_cache_read or 0
    written = output.usage.input_tokens_cache_write or 0
    return Usage(
        calls=1,
        prompt_tokens=output.usage.input_tokens + cached + written,
        cached_prompt_tokens=cached,
        completion_tokens=output.usage.output_tokens,
        cost_usd=output.usage.total_cost,
        seconds=seconds,
    )
