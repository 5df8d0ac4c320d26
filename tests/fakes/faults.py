"""What can go wrong with a model server, each by name, and which requests it befalls.

A fault is written `name[@rate][,always][,first=N][,only=AGENT]`: `500@0.3` strikes three attempts in ten (another try
may fare better), `refusal@0.1,always` one request in ten at every attempt, `429,first=2` each request twice,
`invented-ids,only=decision` one agent. Chance is drawn from the seed and the request: runs can be repeated.
"""

import hashlib
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, NamedTuple, Self

from tests.fakes.wire import DeliveryMode, HttpResponse

Json = dict[str, Any]


class Fault(NamedTuple):
    """One thing that goes wrong, and how often."""

    name: str
    rate: float = 1.0
    always: bool = False
    first: int | None = None
    only: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name[@rate][,always][,first=N][,only=AGENT]`."""
        named, *options = text.split(",")
        name, _, rate = named.partition("@")
        if name not in FAULTS:
            raise ValueError(
                f"no fault {name!r}; there are: {', '.join(sorted(FAULTS))}"
            )
        words = dict(option.partition("=")[::2] for option in options)
        first = int(words["first"]) if "first" in words else None
        return cls(name, float(rate or 1), "always" in words, first, words.get("only"))

    def applies_to(self, agent: str, opening: str, attempt: int, seed: int) -> bool:
        """Whether it befalls the `attempt`-th request (from 1) that begins with these messages."""
        if self.only not in (None, agent) or (
            self.first is not None and attempt > self.first
        ):
            return False
        drawn = f"{seed}/{self.name}/{opening}" + ("" if self.always else f"/{attempt}")
        return hash_to_unit_interval(drawn) < self.rate


def hash_to_unit_interval(text: str) -> float:
    """A number in [0, 1) that is the same for the same text."""
    return (
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()) / 2**56
    )


class FaultContext(NamedTuple):
    """What a fault makes its answer from: the good completion, and the text quoted in refusals."""

    completion: Json
    content: Json | str
    quoted: str
    retry_after: float


Effect = Callable[[FaultContext], HttpResponse]


def completion_response(
    completion: Json, manner: DeliveryMode = DeliveryMode.WHOLE
) -> HttpResponse:
    """A completion as it goes out."""
    return HttpResponse(
        200, json.dumps(completion, ensure_ascii=False).encode(), delivery=manner
    )


def error_response(
    status: int, message: str, code: str | None = None, param: str | None = None
) -> HttpResponse:
    """An error in OpenAI's shape."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": param,
        "code": code,
    }
    return HttpResponse(status, json.dumps({"error": error}).encode())


def _status(status: int, message: str, code: str | None = None) -> Effect:
    return lambda struck: error_response(status, message + struck.quoted, code)


def _overloaded(header: Callable[[float], str]) -> Effect:
    def effect(struck: FaultContext) -> HttpResponse:
        headers = (("retry-after", header(struck.retry_after)),)
        return error_response(
            429, "Rate limit reached." + struck.quoted, "rate_limit_exceeded"
        )._replace(headers=headers)

    return effect


def _html(status: int) -> Effect:
    page = "<html><body><h1>Bad gateway</h1>{}</body></html>"
    return lambda struck: HttpResponse(
        status, page.format(struck.quoted).encode(), "text/html; charset=utf-8"
    )


def _sent(manner: DeliveryMode) -> Effect:
    return lambda struck: completion_response(struck.completion, manner)


def _choice(finish: str, **message: Any) -> Effect:
    """The one choice with another end, and another message where given."""

    def effect(struck: FaultContext) -> HttpResponse:
        choice = struck.completion["choices"][0]
        changed = {
            **choice,
            "finish_reason": finish,
            "message": {**choice["message"], **message},
        }
        return completion_response({**struck.completion, "choices": [changed]})

    return effect


def _said(change: Callable[[str], str]) -> Effect:
    """The content in other words."""
    return lambda struck: _with_content(
        struck, change(struck.completion["choices"][0]["message"]["content"] or "")
    )


def _meant(change: Callable[[Json], Json]) -> Effect:
    """Well-formed JSON that says something else."""
    return lambda struck: _with_content(
        struck,
        json.dumps(change(struck.content))
        if isinstance(struck.content, dict)
        else struck.content,
    )


def _called(change: Callable[[Json], Json]) -> Effect:
    """The tools called in another way; a reply that calls none stays as it is."""

    def effect(struck: FaultContext) -> HttpResponse:
        calls = struck.completion["choices"][0]["message"].get("tool_calls")
        if not calls:
            return completion_response(struck.completion)
        changed = [{**call, "function": change(call["function"])} for call in calls]
        return _choice("tool_calls", tool_calls=changed)(struck)

    return effect


def _with_content(struck: FaultContext, content: str) -> HttpResponse:
    choice = struck.completion["choices"][0]
    message = {**choice["message"], "content": content}
    return completion_response(
        {**struck.completion, "choices": [{**choice, "message": message}]}
    )


def _cut_off(struck: FaultContext) -> HttpResponse:
    text = struck.completion["choices"][0]["message"]["content"] or ""
    return _choice("length", content=text[: len(text) // 2])(struck)


def _invented(content: Json) -> Json:
    if "verdicts" in content:
        first, *rest = content["verdicts"]
        return {**content, "verdicts": [{**first, "sentence_id": "9999"}, *rest]}
    if "answer" in content:
        lines = [
            {**line, "citations": ["9999", *line["citations"]]}
            for line in content["answer"]
        ]
        return {**content, "answer": lines}
    return content


def _verdicts(change: Callable[[list[Json]], list[Json]]) -> Callable[[Json], Json]:
    return lambda content: (
        {**content, "verdicts": change(content["verdicts"])}
        if "verdicts" in content
        else content
    )


def _lines(change: Callable[[str], str]) -> Callable[[Json], Json]:
    def changed(content: Json) -> Json:
        lines = content.get("answer", [])
        return (
            {
                **content,
                "answer": [{**line, "text": change(line["text"])} for line in lines],
            }
            if lines
            else content
        )

    return changed


FAULTS: dict[str, Effect | None] = {
    "connection-reset": _sent(DeliveryMode.RESET),
    "no-answer": _sent(DeliveryMode.SILENT),
    "slow-drip": _sent(DeliveryMode.DRIP),
    "cut-off-body": _sent(DeliveryMode.CUT),
    "429": _status(429, "Rate limit reached.", "rate_limit_exceeded"),
    "429-retry-after": _overloaded(lambda seconds: f"{seconds:g}"),
    "429-retry-date": _overloaded(
        lambda seconds: formatdate(time.time() + seconds, usegmt=True)
    ),
    "500": _status(500, "The server had an error."),
    "502": _status(502, "Bad gateway."),
    "503": _status(503, "The engine is overloaded."),
    "529": _status(529, "Overloaded."),
    "401": _status(401, "Incorrect API key provided.", "invalid_api_key"),
    "404-model": _status(404, "The model does not exist.", "model_not_found"),
    "400-context": _status(
        400,
        "This model's maximum context length is 10 tokens.",
        "context_length_exceeded",
    ),
    "400-other": _status(400, "Something about this request is not liked."),
    "html-200": _html(200),
    "html-502": _html(502),
    "not-json": lambda struck: HttpResponse(200, b'{"choices": [{"mess'),
    "other-json": lambda struck: HttpResponse(200, b'{"object": "chat.completion"}'),
    "empty-choices": lambda struck: completion_response(
        {**struck.completion, "choices": []}
    ),
    "null-choices": lambda struck: completion_response(
        {**struck.completion, "choices": None}
    ),
    "empty-content": _choice("stop", content=""),
    "null-content": _choice("stop", content=None),
    "only-reasoning": _choice("stop", content="", reasoning_content="Let me think."),
    "think-cut": _choice("length", content="<think>Let me think."),
    "prose": _said(lambda text: "The sentence is essential, I think."),
    "length": _cut_off,
    "content-filter": _choice("content_filter", content=""),
    "refusal": _choice("stop", content=None, refusal="I cannot help with that."),
    "invalid-json": _said(lambda text: text.replace(":", " =", 1)),
    "fenced": _said(lambda text: f"```json\n{text}\n```"),
    "trailing-prose": _said(lambda text: f"{text}\n\nI hope this {{helps}}!"),
    "thinking": _said(lambda text: f"<think>First {{some}} thoughts.</think>\n{text}"),
    "wrong-schema": _said(lambda text: '{"thoughts": "I would rather say this."}'),
    "invented-ids": _meant(_invented),
    "missing-sentences": _meant(_verdicts(lambda verdicts: verdicts[1:])),
    "duplicate-sentences": _meant(_verdicts(lambda verdicts: [*verdicts, verdicts[0]])),
    "too-many-words": _meant(_lines(lambda text: f"{text} " + "and so on " * 30)),
    "marks-in-text": _meant(_lines(lambda text: f"{text} |1|")),
    "bad-tool-arguments": _called(
        lambda function: {**function, "arguments": '{"resource_type": "Obs'}
    ),
    "unknown-tool": _called(lambda function: {**function, "name": "read_my_mind"}),
    "arguments-as-object": _called(
        lambda function: {**function, "arguments": json.loads(function["arguments"])}
    ),
    # What a server lacks; see `gaps`.
    "no-json-schema": None,
    "no-json-schema-500": None,
    "no-json-mode": None,
    "no-temperature": None,
    "no-max-tokens": None,
    "no-system-role": None,
    "no-usage": None,
    "no-tools": None,
    "no-parallel-tools": None,
    "no-assistant-last": None,
    "forbidden-model": None,
}
"""Every fault by name; those without an effect are gaps of a whole server, not accidents of one request."""
