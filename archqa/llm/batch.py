"""Requests as files of the OpenAI Batch API, at half the price, and replies parsed from its output
files.

Source: OpenAI API reference, "Batch": a request line holds `custom_id`, `method`, `url` and `body`;
an output line `custom_id` and a `response` with `status_code` and `body`, or an `error`. Our
`custom_id` is the request's cache key.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from archqa.errors import ServerUnavailable
from archqa.llm.cache import ServerCache
from archqa.llm.completion import parse_completion
from archqa.llm.dialect import Dialect
from archqa.llm.model import Reply, Request, TransientError
from archqa.llm.prices import Price
from archqa.safety.text import json_without_surrogates

BATCH_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"

DISCOUNT = 0.5
"""Share of a token's price that a batch pays (OpenAI pricing page, "Batch API price")."""

MAX_REQUESTS_PER_FILE = 50_000
"""Requests in one file, all of one model (same source)."""

PriceOf = Callable[[str], Price | None]


class ReplyPending(Exception):
    """There is no reply yet: the request goes into the next file."""


class BatchModel(NamedTuple):
    """Answers from the replies received so far; a request without one is added to `pending`, by its
    cache key.

    A pending request raises `ReplyPending`, one of the `failed_keys` raises `ServerUnavailable`.
    """

    replies: ServerCache
    pending: dict[str, Request]
    failed_keys: frozenset[str]

    async def ask(self, request: Request) -> Reply:
        """The reply, if it was received."""
        reply = self.replies.get(request)
        if reply is not None:
            return reply
        key = self.replies.key(request)
        if key in self.failed_keys:
            raise ServerUnavailable("The batch failed this request again and again.")
        self.pending[key] = request
        raise ReplyPending


class BatchReply(NamedTuple):
    """One line of an output file: the request's cache key, and the reply or why there is none."""

    key: str
    reply: Reply | None
    error: str


def batch_request_line(key: str, request: Request, dialect: Dialect) -> str:
    """A request as one line of an input file."""
    line = {
        "custom_id": key,
        "method": "POST",
        "url": BATCH_ENDPOINT,
        "body": dialect.arguments(request),
    }
    return json.dumps(line, ensure_ascii=False)


def read_batch_output(lines: Iterable[str], price_of: PriceOf) -> Iterator[BatchReply]:
    """The replies in an output or error file.

    Raises `ValueError` with the number of an invalid line.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json_without_surrogates(json.loads(line))
            key = str(row["custom_id"])
            response = row.get("response") or {}
            error = row.get("error")
            status = response.get("status_code")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(
                f":{number}: is not a line of a batch output file."
            ) from None
        if not response:
            yield BatchReply(key, None, "the request expired")
        elif error or status != 200:
            yield BatchReply(key, None, f"HTTP {status}")
        else:
            yield _parse_reply(key, response.get("body"), price_of)


def _parse_reply(key: str, body: Any, price_of: PriceOf) -> BatchReply:
    """The reply of a successful request, at the batch's price."""
    model = body.get("model", "") if isinstance(body, dict) else ""
    try:
        reply = parse_completion(body, price_of(str(model)))
    except TransientError as invalid:
        return BatchReply(key, None, str(invalid))
    cost = reply.usage.cost_usd
    if cost is not None:
        usage = reply.usage.model_copy(update={"cost_usd": cost * DISCOUNT})
        reply = reply.model_copy(update={"usage": usage})
    return BatchReply(key, reply, "")
