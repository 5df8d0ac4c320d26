"""What the tests of this room ask, and whom."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai

from archqa.agents.judging import Verdict
from archqa.llm.base import Message, Reply, Request
from archqa.llm.client import ServerModel
from archqa.llm.prices import Price
from archqa.llm.structured import strict_schema
from tests.fakes.server import FakeServer, FakeServerProcess

SECRET = "Quagga-4711 was given 40 mg"
"""Stands for record text: it may reach the server and nothing else."""

KEY = "sk-canary-8f3b"
"""Stands for the user's key."""


def question(text: str = SECRET, **changed: Any) -> Request:
    """A request such as the general expert's."""
    schema = strict_schema(Verdict, {"label": ("essential", "not-relevant")})
    messages = (Message(role="system", content="Judge."), Message(role="user", content=text))
    return Request(
        **{"model": "fake", "messages": messages, "output_schema": schema, "schema_name": "general_expert"} | changed
    )


@asynccontextmanager
async def model_at(
    server: FakeServer | FakeServerProcess, patience: float = 5.0, price: Price | None = None
) -> AsyncIterator[ServerModel]:
    """A model behind the fake server, asked once a request."""
    plain = httpx2.AsyncClient(verify=False)  # Loading certificates takes longer than the rest of a test.
    async with openai.AsyncOpenAI(
        api_key=KEY, base_url=server.base_url, max_retries=0, timeout=patience, http_client=plain
    ) as client:
        yield ServerModel(client, lambda _: price)


async def asked_of(server: FakeServer, request: Request | None = None, **options: Any) -> Reply:
    """The reply to one request."""
    async with model_at(server, **options) as model:
        return await model.ask(request or question())


def replying(content: bytes, status: int = 200, **headers: str) -> ServerModel:
    """A model whose server always sends these very bytes; no socket is opened."""
    sent = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return served_by(httpx2.MockTransport(lambda _: httpx2.Response(status, content=content, headers=sent)))


def served_by(transport: httpx2.AsyncBaseTransport) -> ServerModel:
    """A model behind a transport."""
    client = httpx2.AsyncClient(transport=transport)
    return ServerModel(openai.AsyncOpenAI(api_key=KEY, base_url="http://server/v1", max_retries=0, http_client=client))
