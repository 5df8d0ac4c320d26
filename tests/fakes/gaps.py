"""Parts of the protocol that a fake server does not support, and its refusals."""

from collections.abc import Callable
from typing import Any

from tests.fakes.faults import error_response
from tests.fakes.wire import HttpResponse

Json = dict[str, Any]


def unsupported_feature_error(gaps: frozenset[str], body: Json) -> HttpResponse | None:
    """The refusal of a server with these gaps; None where it has nothing against the request."""
    for name in sorted(gaps):
        if name in _OBJECTIONS:
            refusal = _OBJECTIONS[name](body)
            if refusal is not None:
                return refusal
    return None


def _format(body: Json) -> str | None:
    response_format: str | None = (body.get("response_format") or {}).get("type")
    return response_format


def _no_json_schema(body: Json) -> HttpResponse | None:
    if _format(body) != "json_schema":
        return None
    message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
    return error_response(400, message, param="response_format")


def _no_json_schema_500(body: Json) -> HttpResponse | None:
    """As llama-cpp-python's server: its request model has no such type, and the failure is an internal one."""
    return (
        error_response(500, "Internal server error")
        if _format(body) == "json_schema"
        else None
    )


def _no_json_mode(body: Json) -> HttpResponse | None:
    if _format(body) != "json_object":
        return None
    return error_response(
        400,
        "'response_format' of type 'json_object' is not supported.",
        param="response_format",
    )


def _no_temperature(body: Json) -> HttpResponse | None:
    """As reasoning models."""
    if "temperature" not in body:
        return None
    message = "Unsupported value: 'temperature' does not support 0.0 with this model."
    return error_response(400, message, "unsupported_value", "temperature")


def _no_max_tokens(body: Json) -> HttpResponse | None:
    if "max_tokens" not in body:
        return None
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead."
    )
    return error_response(400, message, "unsupported_parameter", "max_tokens")


def _no_system_role(body: Json) -> HttpResponse | None:
    if all(message["role"] != "system" for message in body["messages"]):
        return None
    return error_response(
        400, "System role not supported: roles must alternate user/assistant."
    )


def _no_tools(body: Json) -> HttpResponse | None:
    """As Ollama with a model whose template has none."""
    return (
        error_response(400, f"{body['model']} does not support tools")
        if body.get("tools")
        else None
    )


def _no_parallel_tools(body: Json) -> HttpResponse | None:
    if "parallel_tool_calls" not in body:
        return None
    return error_response(
        400,
        "Unsupported parameter: 'parallel_tool_calls'.",
        "unsupported_parameter",
        "parallel_tool_calls",
    )


def _no_assistant_last(body: Json) -> HttpResponse | None:
    """As llama.cpp, which takes one turn of the model at the end for a beginning, and two for a mistake."""
    if [message["role"] for message in body["messages"]][-2:] != [
        "assistant",
        "assistant",
    ]:
        return None
    return error_response(
        400, "Cannot have 2 or more assistant messages at the end of the list."
    )


def _forbidden_model(body: Json) -> HttpResponse | None:
    """As OpenAI; `forbidden` in a prompt stands for a key without the right to the model."""
    if "forbidden" in str(body["messages"][-1]["content"]):
        return error_response(403, "You are not allowed to sample from this model")
    return None


_OBJECTIONS: dict[str, Callable[[Json], HttpResponse | None]] = {
    "no-json-schema": _no_json_schema,
    "no-json-schema-500": _no_json_schema_500,
    "no-json-mode": _no_json_mode,
    "no-temperature": _no_temperature,
    "no-max-tokens": _no_max_tokens,
    "no-system-role": _no_system_role,
    "no-tools": _no_tools,
    "no-parallel-tools": _no_parallel_tools,
    "no-assistant-last": _no_assistant_last,
    "forbidden-model": _forbidden_model,
}
