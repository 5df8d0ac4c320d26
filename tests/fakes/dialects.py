"""How providers with an OpenAI-compatible endpoint differ from OpenAI, as documented (from memory, November 2026).

A dialect refuses a request by its headers or address, refuses a body, ignores parts of one without a word, and gives a
reply its own shape.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.fakes.faults import error_response
from tests.fakes.wire import HttpRequest, HttpResponse

Json = dict[str, Any]

KEY = "sk-right"
"""The key that the providers take; others are refused."""

FLAGGED = "a flagged word"
"""What the filters of Azure and OpenRouter refuse in a prompt."""

SIGNATURE = {"google": {"thought_signature": "c2lnbmVk"}}


def _takes(_: Any) -> None:
    """Nothing to object to."""


def _same(value: Any) -> Any:
    return value


class FakeDialect(NamedTuple):
    """One provider's way."""

    refused_request: Callable[[HttpRequest], HttpResponse | None] = _takes
    refusal: Callable[[Json], HttpResponse | None] = _takes
    understood: Callable[[Json], Json] = _same
    shaped: Callable[[HttpResponse], HttpResponse] = _same


def _without(*ignored: str) -> Callable[[Json], Json]:
    """A body as a server reads it that knows nothing of some parameters."""
    return lambda body: {
        name: value for name, value in body.items() if name not in ignored
    }


def _prompt(body: Json) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def _reshaped(change: Callable[[Json], Json]) -> Callable[[HttpResponse], HttpResponse]:
    def shaped(response: HttpResponse) -> HttpResponse:
        if response.status != 200:
            return response
        return response._replace(
            body=json.dumps(change(json.loads(response.body))).encode()
        )

    return shaped


def _bearer_only(request: HttpRequest) -> HttpResponse | None:
    if request.headers.get("authorization") == f"Bearer {KEY}":
        return None
    return error_response(401, "Incorrect API key provided.", "invalid_api_key")


def _azure_request(request: HttpRequest) -> HttpResponse | None:
    """A key in `api-key`; a version with the address of a deployment, none with that of v1."""
    if request.headers.get("api-key") != KEY:
        message = "Access denied due to invalid subscription key or wrong API endpoint."
        return error_response(401, message, "401")
    if "/deployments/" in request.path and "api-version=" not in request.path:
        return error_response(404, "Resource not found", "404")
    return None


def _azure_filter(body: Json) -> HttpResponse | None:
    if FLAGGED not in _prompt(body):
        return None
    error = {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {},
        },
    }
    return HttpResponse(400, json.dumps({"error": error}).encode())


def _azure_reply(completion: Json) -> Json:
    return {
        **completion,
        "prompt_filter_results": [{"prompt_index": 0}],
        "system_fingerprint": "",
    }


def _vllm_tools(body: Json) -> HttpResponse | None:
    """As a server started without a parser of tool calls."""
    if not body.get("tools"):
        return None
    message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    error = {
        "object": "error",
        "message": message,
        "type": "BadRequestError",
        "code": 400,
    }
    return HttpResponse(400, json.dumps(error).encode())


def _openrouter_request(request: HttpRequest) -> HttpResponse | None:
    if request.headers.get("authorization") == f"Bearer {KEY}":
        return None
    return HttpResponse(
        401, b'{"error": {"message": "No auth credentials found", "code": 401}}'
    )


def _openrouter(body: Json) -> HttpResponse | None:
    """No provider of this model has strict schemas."""
    if FLAGGED in _prompt(body):
        error = {
            "message": "This model requires moderation. Your input was flagged",
            "code": 403,
        }
        return HttpResponse(403, json.dumps({"error": error}).encode())
    response_format = body.get("response_format") or {}
    if response_format.get("type") != "json_schema" or not (
        body.get("provider") or {}
    ).get("require_parameters"):
        return None
    error = {
        "message": "No endpoints found that can handle the requested parameters. To learn more about provider routing, "
        "visit: https://openrouter.ai/docs/provider-routing",
        "code": 404,
    }
    return HttpResponse(404, json.dumps({"error": error}).encode())


def _openrouter_understood(body: Json) -> Json:
    """A schema is ignored without a word."""
    response_format = body.get("response_format") or {}
    return (
        _without("response_format")(body)
        if response_format.get("type") == "json_schema"
        else body
    )


def _gemini_error(message: str) -> HttpResponse:
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return HttpResponse(400, json.dumps([{"error": error}]).encode())


def _gemini_request(request: HttpRequest) -> HttpResponse | None:
    if request.headers.get("authorization") == f"Bearer {KEY}":
        return None
    return _gemini_error("API key not valid. Please pass a valid API key.")


def _gemini(body: Json) -> HttpResponse | None:
    if "parallel_tool_calls" in body:
        return _gemini_error(
            'Invalid JSON payload received. Unknown name "parallel_tool_calls": Cannot find field.'
        )
    calls = [
        call for message in body["messages"] for call in message.get("tool_calls", ())
    ]
    if any(call.get("extra_content") != SIGNATURE for call in calls):
        return _gemini_error(
            "Function call is missing a thought_signature in functionCall parts."
        )
    return None


def _gemini_reply(completion: Json) -> Json:
    """Calls of tools are signed."""
    choice = completion["choices"][0]
    calls = choice["message"].get("tool_calls", [])
    signed = [{**call, "extra_content": SIGNATURE} for call in calls]
    if not signed:
        return completion
    message = {**choice["message"], "tool_calls": signed}
    return {**completion, "choices": [{**choice, "message": message}]}


def _anthropic(body: Json) -> HttpResponse | None:
    if body["messages"][-1]["role"] == "assistant":
        message = "This model does not support assistant message prefill."
        message += " The conversation must end with a user message."
        return error_response(400, message)
    return None


DIALECTS: dict[str, FakeDialect] = {
    "": FakeDialect(),
    "vllm-without-tools": FakeDialect(refusal=_vllm_tools),
    "ollama": FakeDialect(understood=_without("parallel_tool_calls", "provider")),
    "azure": FakeDialect(_azure_request, _azure_filter, shaped=_reshaped(_azure_reply)),
    "openrouter": FakeDialect(_openrouter_request, _openrouter, _openrouter_understood),
    "gemini": FakeDialect(_gemini_request, _gemini, shaped=_reshaped(_gemini_reply)),
    "anthropic": FakeDialect(_bearer_only, _anthropic, _without("response_format")),
}
