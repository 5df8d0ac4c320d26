"""Tool calls: the request, the reply, and requests without tools."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import ToolsNotSupported
from archqa.llm.cache import SqliteCache
from archqa.llm.client import parse_completion
from archqa.llm.dialect import Dialect
from archqa.llm.model import (
    FinishReason,
    Message,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
    TransientError,
)
from archqa.llm.scripted import ScriptedModel
from tests.fakes.replies import tool_call_reply
from tests.fakes.server import FakeServer
from tests.llm.asking import ask_server, cached_model, model_replying_with

ADD = ToolSpec(
    name="add",
    description="Adds.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
    },
)


def asking(*turns: Message, tools: tuple[ToolSpec, ...] = (ADD,)) -> Request:
    return Request(
        model="fake",
        messages=(Message(role="user", content="Add."), *turns),
        tools=tools,
    )


def tool_result(result: str, call: str = "call_1") -> Message:
    return Message(role="tool", content=result, tool_call_id=call)


def completion(**message: Any) -> dict[str, Any]:
    choice = {
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, **message},
    }
    return {"model": "m", "choices": [choice]}


def test_a_request_without_tools_keeps_its_digest() -> None:
    canonical = {
        "model": "m",
        "messages": [{"role": "user", "content": "Ä"}],
        "output_schema": None,
        "schema_name": "output",
        "temperature": 0.0,
        "max_tokens": None,
        "repetition": 0,
    }
    text = json.dumps(canonical, sort_keys=True, ensure_ascii=False)
    request = Request(model="m", messages=(Message(role="user", content="Ä"),))
    assert request.digest == hashlib.sha256(text.encode()).hexdigest()


def test_digests_differ_by_tools_calls_and_results() -> None:
    call = tool_call_reply(("add", {"a": 1})).as_message
    requests = [
        asking(tools=()),
        asking(),
        asking(call),
        asking(call, tool_result("2")),
        asking(call, tool_result("3")),
    ]
    assert len({request.digest for request in requests}) == len(requests)


def test_tools_and_results_are_sent_in_the_protocols_form() -> None:
    reply = tool_call_reply(("add", {"a": 1}), ("add", {"a": 2}))
    sent = Dialect().arguments(
        asking(reply.as_message, tool_result("2"), tool_result("3", "call_2"))
    )
    assert sent["tools"] == [{"type": "function", "function": ADD.model_dump()}]
    assert sent["parallel_tool_calls"] is True
    _, called, result, next_result = sent["messages"]
    assert called["content"] is None
    assert [call["function"] for call in called["tool_calls"]] == [
        {"name": "add", "arguments": '{"a": 1}'},
        {"name": "add", "arguments": '{"a": 2}'},
    ]
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "2"}
    assert next_result["tool_call_id"] == "call_2"


def test_a_request_without_tools_has_no_tool_parameters() -> None:
    assert not {"tools", "parallel_tool_calls"} & set(
        Dialect().arguments(asking(tools=()))
    )


def test_a_reply_that_only_calls_tools_is_complete() -> None:
    function = {"name": "add", "arguments": '{"a": 1}'}
    reply = parse_completion(
        completion(tool_calls=[{"id": "x", "type": "function", "function": function}]),
        None,
    )
    assert reply.finish is FinishReason.COMPLETE
    assert reply.tool_calls == (ToolCall(id="x", name="add", arguments='{"a": 1}'),)
    assert (
        parse_completion(completion(tool_calls=[]), None).finish is FinishReason.EMPTY
    )


def test_calls_without_ids_and_with_arguments_as_objects_are_read() -> None:
    calls = [
        {"function": {"name": "add", "arguments": {"a": 1}}},
        {"function": {"name": "now"}},
    ]
    reply = parse_completion(completion(tool_calls=calls), None)
    assert [call.id for call in reply.tool_calls] == ["call_1", "call_2"]
    assert [call.arguments for call in reply.tool_calls] == ['{"a": 1}', "{}"]


@pytest.mark.parametrize(
    "calls", [[{}], [{"function": {}}], [None], "add", [{"function": {"name": 3}}]]
)
async def test_a_malformed_tool_call_is_a_transient_error(calls: Any) -> None:
    with pytest.raises(TransientError):
        await model_replying_with(
            json.dumps(completion(tool_calls=calls)).encode()
        ).ask(asking())


async def test_a_cached_reply_still_calls_its_tools(tmp_path: Path) -> None:
    model = ScriptedModel([tool_call_reply(("add", {"a": 1}))])
    with SqliteCache(tmp_path / "replies.db") as cache:
        reply = await cached_model(model, cache).ask(asking())
        cached_reply = await cached_model(model, cache).ask(asking())
    assert reply.tool_calls
    assert cached_reply.tool_calls == reply.tool_calls
    assert cached_reply.usage.cached_calls == 1


def test_a_reply_cached_by_an_earlier_version_can_be_read() -> None:
    stored = (
        '{"text": "x", "finish": "complete", "usage": {"calls": 1}, "served_by": ""}'
    )
    assert Reply.model_validate_json(stored).tool_calls == ()


async def test_the_fake_server_calls_tools_and_then_answers() -> None:
    turns: list[Message] = []
    with FakeServer() as server:
        for _ in range(5):
            reply = await ask_server(server, asking(*turns))
            turns += [
                reply.as_message,
                *(tool_result("3", call.id) for call in reply.tool_calls),
            ]
            if not reply.tool_calls:
                break
    assert reply.text
    assert sum(turn.role == "tool" for turn in turns) >= 3


async def test_parallel_tool_calls_are_not_requested_after_a_refusal() -> None:
    with FakeServer("no-parallel-tools", keep_bodies=True) as server:
        reply = await ask_server(server, asking())
        assert ["parallel_tool_calls" in body for body in server.bodies] == [
            True,
            False,
        ]
    assert len(reply.tool_calls) == 1


async def test_a_server_without_tools_is_an_error_that_names_an_alternative() -> None:
    with (
        FakeServer("no-tools") as server,
        pytest.raises(ToolsNotSupported, match="pipeline that needs none"),
    ):
        await ask_server(server, asking())


async def test_a_server_that_requires_a_final_user_message_gets_one() -> None:
    """After a turn with neither a tool call nor an answer, two assistant messages are last."""
    thinking = Message(role="assistant", content="Let me think.")
    with FakeServer("no-assistant-last", keep_bodies=True) as server:
        assert (await ask_server(server, asking(thinking, thinking))).tool_calls
        assert [body["messages"][-1]["role"] for body in server.bodies] == [
            "assistant",
            "user",
        ]


@pytest.mark.parametrize(
    "refusal",
    [
        "Cannot have 2 or more assistant messages at the end of the list.",
        "Assistant response prefill is incompatible with enable_thinking.",
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ],
)
def test_the_requirement_is_recognised_in_the_refusals_of_servers(refusal: str) -> None:
    weaker = Dialect().fallback_for(refusal.lower(), structured=False)
    assert weaker == Dialect(assistant_last=False)
