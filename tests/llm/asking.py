"""What the tests of this room ask, and whom."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from archqa.agents.labelling import Verdict
from archqa.llm.cache import CachedModel, InFlightRequests, ReplyCache, ServerCache
from archqa.llm.client import ServerModel
from archqa.llm.model import Message, Model, Reply, Request
from archqa.llm.prices import Price
from archqa.llm.structured import strict_schema
from archqa.llm.transport import HttpResponse, HttpTransport
from tests.fakes.server import FakeServer, FakeServerProcess

RECORD_TEXT = "Quagga-4711 was given 40 mg"
"""Stands for record text: it may reach the server and nothing else."""

API_KEY = "sk-canary-8f3b"
"""Stands for the user's key."""


def make_request(text: str = RECORD_TEXT, **changed: Any) -> Request:
    """A request such as the general expert's."""
    schema = strict_schema(Verdict, {"label": ("essential", "not-relevant")})
    messages = (Message(role="system", content="Judge."), Message(role="user", content=text))
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
    server: FakeServer | FakeServerProcess, patience: float = 5.0, price: Price | None = None
) -> AsyncIterator[ServerModel]:
    """A model behind the fake server, asked once a request."""
    wire = HttpTransport(server.base_url, API_KEY, patience)
    try:
        yield ServerModel(wire, lambda _: price)
    finally:
        await wire.close()


async def ask_server(server: FakeServer, request: Request | None = None, **options: Any) -> Reply:
    """The reply to one request."""
    async with server_model(server, **options) as model:
        return await model.ask(request or make_request())


def model_replying_with(content: bytes, status: int = 200, **headers: str) -> ServerModel:
    """A model whose server always sends these very bytes; no socket is opened."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(_: bytes) -> HttpResponse:
        return HttpResponse(status, sent, content)

    return ServerModel(CannedTransport(answer))


class CannedTransport:
    """A line that ends in a function of the body."""

    base_url = "http://server/v1"

    def __init__(self, answer: Callable[[bytes], Awaitable[HttpResponse]]) -> None:
        self._answer = answer

    async def post(self, path: str, body: bytes) -> HttpResponse:
        return await self._answer(body)
