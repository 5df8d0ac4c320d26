import asyncio

import pytest

from archqa.llm.transport import HttpTransport
from archqa.safety.server_urls import proxy_for


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("set_to", "url", "proxy"),
    [
        ({}, "https://model.example/v1", None),
        ({"https_proxy": "http://proxy:3128"}, "https://model.example/v1", "http://proxy:3128"),
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


async def test_posts_go_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        wire = HttpTransport("http://model.example/v1", "key", timeout=5)
        answer = await wire.post("/chat/completions", b"{}")
        await wire.close()
    assert answer.body == b"{}"
    assert heard == [b"POST http://model.example/v1/chat/completions HTTP/1.1\r\n"]
