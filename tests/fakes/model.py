"""The fake model behind the fake server: a request in, an answer and its delay out, and a record of both.

Nothing here waits or touches a socket.
"""

import hashlib
import json
import math
import time
from collections import Counter
from statistics import NormalDist
from typing import Any, NamedTuple

from tests.fakes.dialects import DIALECTS
from tests.fakes.faults import (
    FAULTS,
    Fault,
    FaultContext,
    completion_response,
    error_response,
    hash_to_unit_interval,
)
from tests.fakes.gaps import unsupported_feature_error
from tests.fakes.replies import reply_content, reply_tool_calls, requested_schema
from tests.fakes.wire import HttpRequest, HttpResponse

Json = dict[str, Any]

_BLOCK = 512
"""Characters whose tokens a server keeps together in its prefix cache (128 tokens of 4)."""


class Options(NamedTuple):
    """How the server behaves. Latency is constant without `sigma`, else log-normal with this median, in seconds."""

    latency: float = 0.0
    sigma: float = 0.0
    faults: tuple[str, ...] = ()
    seed: int = 0
    models: tuple[str, ...] = ()
    retry_after: float = 0.0
    drip_seconds: float = 0.01
    quote_prompt: bool = False
    keep_bodies: bool = False
    dialect: str = ""


class RecordedRequest(NamedTuple):
    """One chat request as it was met: `outcome` is `ok` or the fault's name, `repeated` if it had come before."""

    agent: str
    outcome: str
    attempt: int
    repeated: bool
    arrived: float
    delay: float


class FakeModel:
    """Answers requests, deterministically for a seed, and remembers what it was asked."""

    def __init__(self, options: Options) -> None:
        faults = [Fault.parse(fault) for fault in options.faults]
        self._options = options
        self._faults = [fault for fault in faults if FAULTS[fault.name] is not None]
        self._gaps = frozenset(
            fault.name for fault in faults if FAULTS[fault.name] is None
        )
        self._attempts: Counter[bytes] = Counter()
        self._whole: set[bytes] = set()
        self._prefixes: set[int] = set()
        self.seen: list[RecordedRequest] = []
        self.bodies: list[Json] = []

    def answer(self, request: HttpRequest) -> tuple[HttpResponse, float]:
        """What is sent back, and after how many seconds."""
        if request.method == "GET" and _path(request).endswith("/models"):
            return _models(self._options.models or ("fake",)), 0.0
        if request.method != "POST" or not _path(request).endswith("/chat/completions"):
            return error_response(404, "There is no such place."), 0.0
        dialect = DIALECTS[self._options.dialect]
        refusal = dialect.refused_request(request)
        if refusal is not None:
            return refusal, 0.0
        answer, delay = self._chat(json.loads(request.body), request.body)
        return dialect.shaped(answer), delay

    def _chat(self, body: Json, raw: bytes) -> tuple[HttpResponse, float]:
        digest = hashlib.blake2b(raw, digest_size=16).digest()
        prompt = "\n".join(
            f"{message['role']}: {message['content']}" for message in body["messages"]
        )
        opening = _opening(body["messages"])
        agent = ((body.get("response_format") or {}).get("json_schema") or {}).get(
            "name", ""
        )
        unwilling = self._unwilling(body)
        # A request that asks for what the server lacks is no attempt of the conversation it opens.
        if unwilling is None:
            self._attempts[opening] += 1
        attempt = self._attempts[opening]
        outcome, answer = (
            ("refused", unwilling)
            if unwilling
            else self._outcome(body, prompt, agent, opening, attempt)
        )
        delay = self._delay(opening.hex() + f"/{attempt}")
        self.seen.append(
            RecordedRequest(
                agent, outcome, attempt, digest in self._whole, time.monotonic(), delay
            )
        )
        self._whole.add(digest)
        if self._options.keep_bodies:
            self.bodies.append(body)
        return answer, delay

    def _unwilling(self, body: Json) -> HttpResponse | None:
        """The refusal of a request the server can never answer."""
        if self._options.models and body.get("model") not in self._options.models:
            return error_response(
                404,
                f"The model {body.get('model')!r} does not exist.",
                "model_not_found",
            )
        dialect = DIALECTS[self._options.dialect]
        return dialect.refusal(body) or unsupported_feature_error(self._gaps, body)

    def _outcome(
        self, body: Json, prompt: str, agent: str, opening: bytes, attempt: int
    ) -> tuple[str, HttpResponse]:
        body = DIALECTS[self._options.dialect].understood(body)
        content = reply_content(requested_schema(body), prompt, prompt)
        completion = self._completion(
            body, prompt, content, reply_tool_calls(body, prompt, prompt)
        )
        struck = FaultContext(
            completion, content, self._quoted(prompt), self._options.retry_after
        )
        for fault in self._faults:
            if fault.applies_to(agent, opening.hex(), attempt, self._options.seed):
                effect = FAULTS[fault.name]
                assert effect is not None
                return fault.name, effect(struck)
        return "ok", completion_response(completion)

    def _completion(
        self, body: Json, prompt: str, content: Json | str, calls: list[Json]
    ) -> Json:
        text = (
            content
            if isinstance(content, str)
            else json.dumps(content, ensure_ascii=False)
        )
        message: Json = {"role": "assistant", "content": text}
        if calls:
            message, text = (
                {"role": "assistant", "content": None, "tool_calls": calls},
                json.dumps(calls),
            )
        completion: Json = {
            "id": "chatcmpl-fake",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls" if calls else "stop",
                    "message": message,
                }
            ],
        }
        return (
            completion
            if "no-usage" in self._gaps
            else {**completion, "usage": self._usage(prompt, text)}
        )

    def _usage(self, prompt: str, text: str) -> Json:
        prompt_tokens, completion_tokens = len(prompt) // 4, len(text) // 4
        details = {"cached_tokens": self._cached_prefix(prompt) // 4}
        total = prompt_tokens + completion_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": total,
            "prompt_tokens_details": details,
        }

    def _cached_prefix(self, prompt: str) -> int:
        """Characters at the head of the prompt, in whole blocks, that were seen before."""
        ends = range(_BLOCK, len(prompt) + 1, _BLOCK)
        marks = [hash(prompt[:end]) for end in ends]
        cached_blocks = next(
            (index for index, mark in enumerate(marks) if mark not in self._prefixes),
            len(marks),
        )
        self._prefixes.update(marks[cached_blocks:])
        return cached_blocks * _BLOCK

    def _delay(self, name: str) -> float:
        options = self._options
        if not options.sigma:
            return options.latency
        drawn = min(
            max(hash_to_unit_interval(f"{options.seed}/latency/{name}"), 1e-9), 1 - 1e-9
        )
        return options.latency * math.exp(options.sigma * _NORMAL.inv_cdf(drawn))

    def _quoted(self, prompt: str) -> str:
        """Some servers quote what they were sent in their errors."""
        return f" You sent: {prompt}" if self._options.quote_prompt else ""


_NORMAL = NormalDist()


def _path(request: HttpRequest) -> str:
    """The path without the query."""
    return request.path.partition("?")[0]


def _opening(messages: list[Json]) -> bytes:
    """The digest of a conversation's first two messages, which identifies it in later turns."""
    contents = [message["content"] or "" for message in messages[:2]]
    opening = "\n".join(contents).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(opening, digest_size=16).digest()


def _models(names: tuple[str, ...]) -> HttpResponse:
    rows = [
        {"id": name, "object": "model", "created": 0, "owned_by": "fake"}
        for name in names
    ]
    return HttpResponse(200, json.dumps({"object": "list", "data": rows}).encode())
