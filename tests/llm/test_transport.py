"""What leaves this machine for a model server, and by which way: our transport below the SDK."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import ModelError
from archqa.llm.dialect import Dialect
from archqa.llm.model import Message, ToolCall, ToolSpec
from archqa.llm.server import ModelServer
from archqa.safety.server_urls import proxy_for
from tests.benchmarks.model_calls import cpu_of_a_call
from tests.fakes.server import FakeServer
from tests.llm.asking import API_KEY, ask_server, make_request
from tests.safety.raw_server import RawServer, Request, json_response

BODY: dict[str, Any] = {"model": "m", "messages": []}
PROXY_VARIABLES = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("set_to", "url", "proxy"),
    [
        ({}, "https://model.example/v1", None),
        (
            {"https_proxy": "http://proxy:3128"},
            "https://model.example/v1",
            "http://proxy:3128",
        ),
        ({"https_proxy": "http://proxy:3128"}, "http://model.example/v1", None),
        (
            {"http_proxy": "http://proxy:3128", "no_proxy": "model.example"},
            "http://model.example/v1",
            None,
        ),
        (
            {"http_proxy": "http://proxy:3128", "no_proxy": "127.0.0.1"},
            "http://127.0.0.1:8000/v1",
            None,
        ),
        ({"http_proxy": "socks5://proxy:1080"}, "http://model.example/v1", None),
    ],
)
def test_the_proxy_is_the_one_the_environment_names(
    set_to: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in set_to.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


async def test_completions_go_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        await reader.readuntil(b'"messages":[]}')
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        async with ModelServer(
            "http://model.example/v1", API_KEY, timeout=5
        ) as model_server:
            response = await model_server.chat(BODY)
    assert response.content == b"{}"
    assert heard == [b"POST http://model.example/v1/chat/completions HTTP/1.1\r\n"]


async def requests_of_all_kinds(**urls: str) -> list[Request]:
    """What arrives at a server for a completion and a list of models."""
    with RawServer(lambda _: json_response('{"data": []}')) as server:
        url = f"{server.url}{urls.get('path', '/v1')}"
        async with ModelServer(url, API_KEY, timeout=5) as model_server:
            await model_server.chat(BODY)
            await model_server.models()
    return server.requests


async def test_a_server_learns_no_more_of_this_machine_than_it_needs() -> None:
    for request in await requests_of_all_kinds():
        allowed = {"host", "authorization", "accept", "accept-encoding", "user-agent"}
        if request.method == "POST":
            allowed |= {"content-type", "content-length"}
        assert set(request.headers) == allowed
        assert request.headers["authorization"] == f"Bearer {API_KEY}"
        assert request.headers["accept-encoding"] == "gzip"


async def test_a_mistyped_key_is_sent_as_it_is() -> None:
    with RawServer(lambda _: json_response("{}")) as server:
        async with ModelServer(
            server.url, "sk-\N{EN DASH}1", timeout=5
        ) as model_server:
            await model_server.chat(BODY)
    sent = server.requests[0].headers["authorization"].encode("latin-1")
    assert sent == "Bearer sk-\N{EN DASH}1".encode()


async def test_connections_are_kept_between_requests() -> None:
    opened: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while await reader.readuntil(b'"messages":[]}'):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ModelServer(
            f"http://127.0.0.1:{port}", API_KEY, timeout=5
        ) as model_server:
            for _ in range(3):
                await model_server.chat(BODY)
        assert len(opened) == 1
        opened[0].close()


async def test_the_sdk_takes_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = await requests_of_all_kinds()
    variables = {
        "OPENAI_API_KEY": "sk-ambient",
        "OPENAI_ADMIN_KEY": "sk-ambient",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/other",
        "OPENAI_ORG_ID": "org-ambient",
        "OPENAI_PROJECT_ID": "proj-ambient",
        "OPENAI_WEBHOOK_SECRET": "whsec-ambient",
        "OPENAI_CUSTOM_HEADERS": "X-Ambient: 1\nAuthorization: ambient\nUser-Agent: ambient\n"
        "content-length: 1",
        "OPENAI_API_VERSION": "1999-01-01",
        "AZURE_OPENAI_API_KEY": "azure-ambient",
        "AZURE_OPENAI_AD_TOKEN": "azure-ambient",
        "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9/azure",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert [_without_host(request) for request in await requests_of_all_kinds()] == [
        _without_host(request) for request in plain
    ]
    azure = await requests_of_all_kinds(
        path="/openai/deployments/d?api-version=2026-01-01"
    )
    assert "ambient" not in str(azure)
    assert all(request.headers["api-key"] == API_KEY for request in azure)


def _without_host(request: Request) -> Request:
    headers = {name: value for name, value in request.headers.items() if name != "host"}
    return request._replace(headers=headers)


def test_the_sdks_own_log_is_not_turned_on_by_the_environment() -> None:
    program = (
        "import logging, os, archqa.llm.server;"
        "print(logging.getLogger('openai').level, logging.root.handlers, os.environ['OPENAI_LOG'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"OPENAI_LOG": "debug", "PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout.split() == ["0", "[]", "debug"]


ADD = ToolSpec(
    name="add", description="Adds.", parameters={"type": "object", "properties": {}}
)
CALL = ToolCall(
    id="c", name="add", arguments='{"a": 1}', extra_content={"google": {"x": "y"}}
)
CONVERSATION = (
    Message(role="user", content="Wie groß?\n\u2028\N{PILL}"),
    Message(role="assistant", content="", tool_calls=(CALL,)),
    Message(role="tool", content="3", tool_call_id="c"),
)


@pytest.mark.parametrize(
    "request_fields",
    [
        {"max_tokens": 7},
        {"output_schema": None, "temperature": None},
        {"messages": CONVERSATION, "tools": (ADD,), "temperature": 0.3},
    ],
)
async def test_the_server_gets_the_body_that_the_dialect_wrote(
    request_fields: dict[str, Any],
) -> None:
    request = make_request(**request_fields)
    with FakeServer(keep_bodies=True) as server:
        await ask_server(server, request)
    [body] = server.bodies
    assert json.dumps(body) == json.dumps(Dialect().arguments(request))


async def test_half_a_character_of_a_prompt_is_replaced() -> None:
    with FakeServer(keep_bodies=True) as server:
        await ask_server(server, make_request("a\ud800b"))
    assert server.bodies[0]["messages"][-1]["content"] == "a\ufffdb"


@pytest.mark.parametrize(
    ("path", "chat", "models"),
    [
        ("/v1", "/v1/chat/completions", "/v1/models"),
        ("/v1/", "/v1/chat/completions", "/v1/models"),
        ("", "/chat/completions", "/models"),
        ("/a%20b/v1", "/a%20b/v1/chat/completions", "/a%20b/v1/models"),
        (
            "/azure?api-version=2026-01-01",
            "/azure/chat/completions?api-version=2026-01-01",
            "/azure/models?api-version=2026-01-01",
        ),
        (
            "/openai/v1?api-version=preview&deployment=d",
            "/openai/v1/chat/completions?api-version=preview&deployment=d",
            "/openai/v1/models?api-version=preview&deployment=d",
        ),
        (
            "/gateway/openai/deployments/gpt-4.1/?api-version=1",
            "/gateway/openai/deployments/gpt-4.1/chat/completions?api-version=1",
            "/gateway/openai/models?api-version=1",
        ),
    ],
)
async def test_paths_are_joined_to_the_base_url(
    path: str, chat: str, models: str
) -> None:
    targets = [request.target for request in await requests_of_all_kinds(path=path)]
    assert targets == [chat, models]


async def test_an_id_of_a_server_stays_one_part_of_the_path(tmp_path: Path) -> None:
    with RawServer(lambda _: json_response("lines")) as server:
        async with ModelServer(f"{server.url}/v1", API_KEY) as model_server:
            for file_id in ("a/b?c", "a%2fb", "ü ~"):
                await model_server.save_file(file_id, tmp_path / "lines")
    assert [request.target for request in server.requests] == [
        "/v1/files/a%2Fb%3Fc/content",
        "/v1/files/a%252fb/content",
        "/v1/files/%C3%BC%20~/content",
    ]


@pytest.mark.parametrize("file_id", [".", "..", "\ud800"])
async def test_an_id_that_no_path_can_have_is_an_error(
    file_id: str, tmp_path: Path
) -> None:
    async with ModelServer("http://127.0.0.1:9/v1", API_KEY) as model_server:
        with pytest.raises(ModelError, match="does not have"):
            await model_server.save_file(file_id, tmp_path / "lines")


@pytest.mark.heavy
async def test_a_call_costs_at_most_four_milliseconds_of_processor_time() -> None:
    assert await cpu_of_a_call() < 0.004
