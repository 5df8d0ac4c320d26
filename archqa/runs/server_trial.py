"""One tiny request to a model server, to see whether it keeps a reply to a JSON Schema.

The text is invented and asks for what the schema does not allow: a model that nothing holds to the
schema answers with the colour of the sky, one that is held to it must name a stone.
"""

import json
from typing import Any, Literal, NamedTuple

from archqa.core.value import FrozenModel
from archqa.llm.client import ServerModel
from archqa.llm.model import FinishReason, Message, Reply, Request
from archqa.llm.retries import RetryingModel
from archqa.llm.structured import Rejected, parse_output, strict_schema
from archqa.llm.transport import HttpResponse, Transport
from archqa.runs.server_addresses import open_transport
from archqa.settings import Settings

MAX_TOKENS = 512
"""Of the reply. A model that thinks first may need them all."""

_QUESTION = "What colour is the sky on a clear day at noon? Answer with one word."


class _Stone(FrozenModel):
    """What the schema asks for."""

    stone: Literal["basalt", "granite"]


class Trial(NamedTuple):
    """What the server did with the request.

    `response_format` is the strictest form that it took: `json_schema`, `json_object`, or an empty
    text where the schema had to be written into the prompt. `fits` says whether the reply keeps to
    the schema; None for one that was cut off, empty or refused, which `finish` tells apart.
    """

    response_format: str
    fits: bool | None
    finish: FinishReason

    @property
    def schema_enforced(self) -> bool:
        """Whether the server took the schema and the reply keeps to it."""
        return self.response_format == "json_schema" and self.fits is True


async def try_model(settings: Settings, model: str) -> Trial:
    """Send the request to the server of the settings. No text of a record is in it.

    Raises `ModelError`, `CaseFailed` for a context of a few tokens, and `CallerError` for an invalid
    URL.
    """
    transport = open_transport(settings, settings.base_url)
    recorder = _FormatRecorder(transport)
    retries = settings.retries
    server = RetryingModel(
        ServerModel(recorder), tries=retries.tries, first_wait=retries.first_wait
    )
    try:
        reply = await server.ask(_request(model))
    finally:
        await transport.close()
    return Trial(recorder.accepted_format, _fits(reply), reply.finish)


def _request(model: str) -> Request:
    return Request(
        model=model,
        messages=(Message(role="user", content=_QUESTION),),
        output_schema=strict_schema(_Stone),
        schema_name="stone",
        max_tokens=MAX_TOKENS,
    )


def _fits(reply: Reply) -> bool | None:
    try:
        parse_output(reply.text, _Stone)
    except Rejected:
        return False if reply.finish is FinishReason.COMPLETE else None
    return True


class _FormatRecorder:
    """A transport that remembers the `response_format` of the request that was answered."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.base_url = inner.base_url
        self.accepted_format = ""

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Send a request. Raises as the transport does."""
        response = await self._inner.post(path, body)
        if response.status < 400:
            sent: dict[str, Any] = json.loads(body)
            self.accepted_format = sent.get("response_format", {}).get("type", "")
        return response
