"""Providers with an OpenAI-compatible endpoint, as their documentation describes them: fakes speak as they do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from archqa.agents.labelling import Verdict
from archqa.errors import AuthenticationFailed, Refused, ToolsNotSupported
from archqa.llm.client import ServerModel
from archqa.llm.completion import parse_completion
from archqa.llm.dialect import Dialect, first_dialect
from archqa.llm.model import FinishReason, Message, TransientError
from archqa.llm.server import ModelServer
from archqa.llm.structured import parse_output
from tests.fakes.dialects import FLAGGED, KEY, SIGNATURE
from tests.fakes.server import FakeServer
from tests.llm.asking import make_request
from tests.llm.test_tool_calls import ADD, asking, tool_result

ANTHROPIC = "https://api.anthropic.com/v1/"
OPENROUTER = "https://openrouter.ai/api/v1"


@asynccontextmanager
async def provider(
    server: FakeServer, key: str = KEY, path: str = "", known_as: str = ""
) -> AsyncIterator[ServerModel]:
    """A model behind a fake provider, treated as the server at the address `known_as`."""
    dialect = first_dialect(known_as) if known_as else None
    model = ServerModel(
        server.base_url + path, key, timeout=5.0, initial_dialect=dialect
    )
    try:
        yield model
    finally:
        await model.close()


def format_of(body: dict[str, Any]) -> str:
    """The response format that was asked for."""
    kind: str = (body.get("response_format") or {}).get("type", "none")
    return kind


async def test_azure_gets_its_key_in_its_own_header_and_its_version_with_each_request() -> (
    None
):
    deployment = "/openai/deployments/gpt-4.1?api-version=2024-10-21"
    with FakeServer(dialect="azure", keep_bodies=True) as server:
        async with provider(server, path=deployment) as model:
            reply = await model.ask(make_request())
    assert reply.finish is FinishReason.COMPLETE
    assert format_of(server.bodies[0]) == "json_schema"


@pytest.mark.parametrize(
    ("url", "key", "header"),
    [
        ("https://x.openai.azure.com/openai/v1/", "0a1b", {"api-key": "0a1b"}),
        ("https://X.OpenAI.Azure.com/openai/deployments/d?api-version=1", "k", {"api-key": "k"}),
        ("https://x.services.ai.azure.com/openai/v1", "k", {"api-key": "k"}),
        ("https://gateway.example/azure?api-version=2024-10-21", "k", {"api-key": "k"}),
        ("https://x.openai.azure.com/openai/v1", "eyJh.eyJb.c-_1", {"Authorization": "Bearer eyJh.eyJb.c-_1"}),
        ("https://api.openai.com/v1", "k", {"Authorization": "Bearer k"}),
        ("https://openai.azure.com.example/v1", "k", {"Authorization": "Bearer k"}),
        ("http://127.0.0.1:8000/v1", "eyJh.eyJb.c", {"Authorization": "Bearer eyJh.eyJb.c"}),
    ],
)  # fmt: skip
async def test_a_key_stands_in_one_header_alone_in_requests_of_all_kinds(
    url: str, key: str, header: dict[str, str], tmp_path: Path
) -> None:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json={"data": [], "id": "f", "status": "completed"})

    (tmp_path / "lines").write_text("{}")
    transport = httpx2.MockTransport(answer)
    async with ModelServer(url, key, transport=transport) as server:
        await server.chat({"model": "m", "messages": []})
        await server.models()
        await server.upload_batch_file(tmp_path / "lines")
        await server.create_batch("f")
        await server.batch("b")
        await server.save_file("f", tmp_path / "file")
    assert len(requests) == 6
    for request in requests:
        names = {"Authorization", "api-key"}
        assert {name: request.headers.get(name) for name in names} == {
            name: header.get(name) for name in names
        }


@pytest.mark.parametrize(
    ("name", "path"), [("azure", "?api-version=1"), ("openrouter", "")]
)
async def test_a_prompt_that_a_filter_refuses_fails_its_case_and_not_the_run(
    name: str, path: str
) -> None:
    with FakeServer(dialect=name) as server:
        async with provider(server, path=path) as model:
            with pytest.raises(Refused, match="content filter") as refused:
                await model.ask(make_request(FLAGGED))
            assert FLAGGED not in str(refused.value)
            await model.ask(make_request("Nothing to object to."))


@pytest.mark.parametrize("name", ["azure", "openrouter", "gemini", "anthropic"])
async def test_a_wrong_key_is_a_wrong_key(name: str) -> None:
    """Gemini says so with HTTP 400."""
    with FakeServer(dialect=name) as server:
        async with provider(server, "sk-wrong", "?api-version=1") as model:
            with pytest.raises(AuthenticationFailed):
                await model.ask(make_request())


async def test_openrouter_must_find_a_provider_that_does_what_is_asked() -> None:
    """Without that, it would pass a schema to one that ignores it, and prose would come back."""
    with FakeServer(dialect="openrouter", keep_bodies=True) as server:
        async with provider(server, known_as=OPENROUTER) as model:
            reply = await model.ask(make_request())
            await model.ask(make_request("another"))
    assert parse_output(reply.text, Verdict)
    forms = [format_of(body) for body in server.bodies]
    assert forms == ["json_schema", "json_object", "json_object"]
    for body in server.bodies:
        assert body["provider"] == {"require_parameters": True}


def test_with_no_provider_at_all_for_what_is_sent_the_requirement_goes_last() -> None:
    refusal = "no endpoints found that can handle the requested parameters."
    dialect: Dialect | None = first_dialect(OPENROUTER)
    steps: list[tuple[str, bool]] = []
    while dialect is not None and len(steps) < 9:
        steps.append((dialect.structure.name, dialect.require_parameters))
        dialect = dialect.fallback_for(refusal, structured=True)
    assert steps == [("SCHEMA", True), ("JSON", True), ("TEXT", True), ("TEXT", False)]


async def test_anthropics_endpoint_gets_the_schema_in_the_prompt() -> None:
    """It ignores `response_format` without a word."""
    with FakeServer(dialect="anthropic", keep_bodies=True) as server:
        async with provider(server, known_as=ANTHROPIC) as model:
            reply = await model.ask(make_request())
            await model.ask(make_request("in prose", output_schema=None))
            await model.ask(make_request("once more"))
    assert parse_output(reply.text, Verdict)
    assert server.count == 3
    for body in server.bodies:
        assert not {"response_format", "provider"} & set(body)
        assert 0 <= body["temperature"] <= 1
    assert "fits this JSON Schema" in server.bodies[2]["messages"][-1]["content"]


async def test_anthropics_endpoint_gets_no_prefilled_reply() -> None:
    turns = (
        Message(role="user", content="Begin."),
        Message(role="assistant", content="I"),
    )
    with FakeServer(dialect="anthropic", keep_bodies=True) as server:
        async with provider(server, known_as=ANTHROPIC) as model:
            await model.ask(make_request(messages=turns, output_schema=None))
    assert [body["messages"][-1]["role"] for body in server.bodies] == [
        "assistant",
        "user",
    ]


async def test_gemini_is_asked_without_what_it_does_not_know_and_gets_its_signatures_back() -> (
    None
):
    with FakeServer(dialect="gemini", keep_bodies=True) as server:
        async with provider(server) as model:
            await model.ask(make_request())
            reply = await model.ask(asking())
            assert reply.tool_calls
            results = [tool_result("3", call.id) for call in reply.tool_calls]
            await model.ask(asking(reply.as_message, *results))
    last = server.bodies[-1]
    assert last["messages"][1]["tool_calls"][0]["extra_content"] == SIGNATURE
    assert "parallel_tool_calls" not in last
    assert format_of(server.bodies[0]) == "json_schema"


def test_a_call_of_other_servers_has_no_extra_content() -> None:
    row = {
        "id": "c",
        "type": "function",
        "function": {"name": "add", "arguments": "{}"},
    }
    completion = {
        "choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [row]}}]
    }
    reply = parse_completion(completion, None)
    assert reply.tool_calls[0].model_dump() == {
        "id": "c",
        "name": "add",
        "arguments": "{}",
    }
    [message] = Dialect().arguments(asking(reply.as_message))["messages"][1:]
    assert message["tool_calls"] == [row]


@pytest.mark.parametrize(
    "choice",
    [
        {"index": 0, "finish_reason": "content_filter"},
        {
            "finish_reason": "content_filter: PROHIBITED_CONTENT",
            "message": {"content": ""},
        },
        {"finish_reason": "content_filter", "message": None},
    ],
)
def test_a_filtered_reply_may_have_no_message(choice: dict[str, Any]) -> None:
    assert parse_completion({"choices": [choice]}, None).finish is FinishReason.FILTERED


def test_a_router_whose_provider_failed_is_asked_again() -> None:
    choice = {"finish_reason": "error", "message": {"content": "half of"}}
    with pytest.raises(TransientError):
        parse_completion({"choices": [choice]}, None)


async def test_a_key_without_the_right_to_a_model_is_a_wrong_key() -> None:
    with FakeServer("forbidden-model") as server:
        async with provider(server) as model:
            await model.ask(make_request())
            with pytest.raises(AuthenticationFailed):
                await model.ask(make_request("forbidden"))


async def test_ollama_ignores_what_it_does_not_know() -> None:
    with FakeServer(dialect="ollama") as server:
        async with provider(server, "ollama") as model:
            reply = await model.ask(make_request())
    assert parse_output(reply.text, Verdict)


async def test_vllm_without_a_parser_of_tool_calls_says_what_it_lacks() -> None:
    with FakeServer(dialect="vllm-without-tools") as server:
        async with provider(server) as model:
            with pytest.raises(ToolsNotSupported, match="call tools"):
                await model.ask(asking(tools=(ADD,)))
            assert (await model.ask(make_request())).finish is FinishReason.COMPLETE


def test_unknown_servers_are_asked_for_everything() -> None:
    assert first_dialect("http://127.0.0.1:8000/v1") == Dialect()
    assert first_dialect("https://api.anthropic.com.example/v1") == Dialect()
