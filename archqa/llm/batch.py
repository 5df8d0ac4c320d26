"""Half price for those who can wait: requests as files of the OpenAI Batch API, replies read back from its output.

Source: OpenAI API reference, "Batch": a request line holds `custom_id`, `method`, `url` and `body`; an output line
`custom_id` and a `response` with `status_code` and `body`, or an `error`. Our `custom_id` is the request's digest.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from archqa.errors import ServerUnavailable
from archqa.llm.cache import SqliteCache
from archqa.llm.client import parse_completion
from archqa.llm.dialect import Dialect
from archqa.llm.model import Reply, Request, TransientError
from archqa.llm.prices import Price

BATCH_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"

DISCOUNT = 0.5
"""What a batched token costs of its price (OpenAI pricing page, "Batch API price")."""


MAX_REQUESTS_PER_FILE = 50_000
"""Requests a file may hold, all of one model (same source)."""


class ReplyPending(Exception):
    """The reply has not come yet: its request goes into the next file."""


class BatchModel:
    """Answers from the replies that have come; a request without one is put into `waiting` and raises `ReplyPending`.

    A request that is among the `hopeless` raises `ServerUnavailable`.
    """

    def __init__(
        self, replies: SqliteCache, waiting: dict[str, Request], hopeless: frozenset[str]
    ) -> None:
        self._replies = replies
        self._waiting = waiting
        self._hopeless = hopeless

    async def ask(self, request: Request) -> Reply:
        """The reply, if it has come."""
        reply = self._replies.get(request.digest)
        if reply is None and request.digest in self._hopeless:
            raise ServerUnavailable("The batch failed this request again and again.")
        if reply is None:
            self._waiting[request.digest] = request
            raise ReplyPending
        return reply


class BatchReply(NamedTuple):
    """One line of an output file: the request's digest, and the reply or why there is none."""

    digest: str
    reply: Reply | None
    error: str


def batch_request_line(request: Request, dialect: Dialect) -> str:
    """A request as one line of an input file."""
    body = dialect.arguments(request)
    return json.dumps(
        {"custom_id": request.digest, "method": "POST", "url": BATCH_ENDPOINT, "body": body},
        ensure_ascii=False,
    )


def read_batch_output(
    lines: Iterable[str], price_of: Callable[[str], Price | None]
) -> Iterator[BatchReply]:
    """The replies in an output or error file. Raises `ValueError` with the number of a line that is neither."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_line(line, number, price_of)


def _read_line(line: str, number: int, price_of: Callable[[str], Price | None]) -> BatchReply:
    try:
        row = json.loads(line)
        digest, response = str(row["custom_id"]), row.get("response") or {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f":{number}: is not a line of a batch output file.") from None
    if row.get("error") or response.get("status_code") != 200:
        return BatchReply(
            digest,
            None,
            f"HTTP {response.get('status_code')}" if response else "the request expired",
        )
    try:
        return BatchReply(digest, _reply(response["body"], price_of), "")
    except (TransientError, KeyError, TypeError) as error:
        return BatchReply(digest, None, str(error))


def _reply(body: dict[str, Any], price_of: Callable[[str], Price | None]) -> Reply:
    reply = parse_completion(body, price_of(str(body.get("model", ""))))
    cost = reply.usage.cost_usd
    half = reply.usage.model_copy(update={"cost_usd": None if cost is None else cost * DISCOUNT})
    return reply.model_copy(update={"usage": half})
