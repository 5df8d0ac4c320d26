"""Inspect's model as a model of archqa: every call is an event of Inspect's log."""

import json
from contextlib import suppress
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
from archqa.llm.model import FinishReason, Message, Reply, Request, ToolCall
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
        tools = []
        for tool in request.tools:
            parameters = {"type": "object", **without_references(tool.parameters)}
            tools.append(
                ToolInfo(
                    name=tool.name,
                    description=tool.description,
                    parameters=ToolParams.model_validate(parameters),
                )
            )
        output = await get_model().generate(
            input=[self._message(message, request) for message in request.messages],
            tools=tools,
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
            return _tool_message(message, request)
        return self._replies.get(_identity(message)) or _assistant_message(message)


def _identity(message: Message) -> tuple[str, tuple[str, ...]]:
    return message.content, tuple(call.id for call in message.tool_calls)


def _tool_message(message: Message, request: Request) -> ChatMessageTool:
    """The result of a tool, with the name by which the model had called it."""
    names: dict[str, str] = {}
    for earlier in request.messages:
        for call in earlier.tool_calls:
            names.setdefault(call.id, call.name)
    return ChatMessageTool(
        content=message.content,
        tool_call_id=message.tool_call_id,
        function=names.get(message.tool_call_id),
    )


def _assistant_message(message: Message) -> ChatMessageAssistant:
    calls = []
    for call in message.tool_calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = {}
        if not isinstance(arguments, dict):
            arguments = {}
        calls.append(InspectToolCall(id=call.id, function=call.name, arguments=arguments))
    return ChatMessageAssistant(content=message.content, tool_calls=calls or None)


def _config(request: Request) -> GenerateConfig:
    """The request's own settings; those that it leaves open are Inspect's.

    Without a schema of the reply, it is prose, or the prompt alone describes it.
    """
    values: dict[str, Any] = {}
    if request.temperature is not None:
        values["temperature"] = request.temperature
    if request.max_tokens is not None:
        values["max_tokens"] = request.max_tokens
    if request.output_schema is not None:
        with suppress(RecursiveSchemaError):
            schema = without_references(request.output_schema)
            values["response_schema"] = ResponseSchema(
                name=request.schema_name,
                json_schema=JSONSchema.model_validate(schema),
                strict=True,
            )
    return GenerateConfig(**values)


def _reply(output: ModelOutput) -> Reply:
    calls = []
    if output.choices:
        for call in output.message.tool_calls or ():
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            if call.parse_error:
                arguments = _UNREADABLE
            calls.append(ToolCall(id=call.id, name=call.function, arguments=arguments))
    return Reply(
        text=output.completion,
        finish=_finish(output, has_calls=bool(calls)),
        usage=_usage(output),
        served_by=output.model,
        tool_calls=tuple(calls),
    )


def _finish(output: ModelOutput, *, has_calls: bool) -> FinishReason:
    if not output.choices:
        return FinishReason.EMPTY
    if output.stop_reason == "content_filter":
        return FinishReason.FILTERED
    if output.stop_reason == "max_tokens":
        return FinishReason.LENGTH
    has_content = has_calls or bool(output.completion.strip())
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
