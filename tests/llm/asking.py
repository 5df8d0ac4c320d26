"""What the tests of this room ask, and whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from archqa.agents.labelling import Verdict
from archqa.llm.cache import CachedModel, InFlightRequests, ReplyCache, ServerCache
from archqa.llm.client import ServerModel
from archqa.llm.model import Message, Model, Reply, Request
from archqa.llm.prices import Price
from archqa.llm.structured import strict_schema
from tests.fakes.server import FakeServer, FakeServerProcess

RECORD_TEXT = "Quagga-4711 was given 40 mg"
"""Stands for record text: it may reach the server and nothing else."""

API_KEY = "sk-canary-8f3b"
"""Stands for the user's key."""


def make_request(text: str = RECORD_TEXT, **changed: Any) -> Request:
    """A request such as the general expert's."""
    schema = strict_schema(Verdict, {"label": ("essential", "not-relevant")})
    messages = (
        Message(role="system", content="Judge."),
        Message(role="user", content=text),
    )
    return Request(
        **{
            "model": "fake",
            "messages": messages,
            "output_schema": schema,
            "schema_name": "general_expert",
        }
        | changed
    )


def cached_model(
    model: Model,
    cache: ReplyCache,
    in_flight: InFlightRequests | None = None,
    server: str = "http://server/v1",
) -> CachedModel:
    """A model whose replies are cached as those of one server."""
    return CachedModel(model, ServerCache(cache, server), in_flight)


@asynccontextmanager
async def server_model(
    server: FakeServer | FakeServerProcess,
    patience: float = 5.0,
    price: Price | None = None,
) -> AsyncIterator[ServerModel]:
    """A model behind the fake server, asked once a request."""
    model = ServerModel(
        server.base_url, API_KEY, timeout=patience, price_of=lambda _: price
    )
    try:
        yield model
    finally:
        await model.close()


async def ask_server(
    server: FakeServer, request: Request | None = None, **options: Any
) -> Reply:
    """The reply to one request."""
    async with server_model(server, **options) as model:
        return await model.ask(request or make_request())


def model_replying_with(
    content: bytes, status: int = 200, **headers: str
) -> ServerModel:
    """A model whose server always sends these very bytes; no socket is opened."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(status, headers=sent, content=content)
    )
    return ServerModel("http://server/v1", API_KEY, transport=transport)
