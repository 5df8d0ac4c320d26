"""Sends spans to an OpenTelemetry collector (OTLP over HTTP with JSON).

Source: opentelemetry.io/docs/specs/otlp/#otlphttp; headers by the standard environment variable.
"""

import json
import os
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2

from archqa.errors import AuthenticationFailed, CallerError, ServerUnavailable
from archqa.fhir.client.exchange import exchange, open_http
from archqa.safety.base_urls import check_encrypted, fhir_server_problem, host_of

HEADERS_ENV_VAR = "OTEL_EXPORTER_OTLP_HEADERS"
"""Headers as `name=value,name=value`: where a collector's key belongs."""

_DEFAULT_PATH = "/v1/traces"
_MAX_REPLY_BYTES = 2**20
_TIMEOUT_SECONDS = 30.0


def traces_url(endpoint: str, *, allow_plain_http: bool = False) -> str:
    """Return where traces go: the endpoint, with the standard path if it has none.

    Raises `CallerError` for no URL, one with a secret, and plain http to another machine.
    """
    problem = fhir_server_problem(endpoint)
    if problem:
        problem = problem.partition(";")[0]
        raise CallerError(
            f"The collector's address {problem}.\n"
            f"Name a URL such as http://127.0.0.1:4318; keys belong into {HEADERS_ENV_VAR}."
        )
    check_encrypted(endpoint, allow_plain_http=allow_plain_http)
    has_path = urlsplit(endpoint).path.strip("/") != ""
    return endpoint if has_path else f"{endpoint.rstrip('/')}{_DEFAULT_PATH}"


def send_spans(lines: Iterable[str], url: str) -> int:
    """Send each line as one request; return how many spans the collector took.

    Raises `ServerUnavailable`, and `AuthenticationFailed` where the key is refused.
    """
    taken = 0
    with open_http(url, _TIMEOUT_SECONDS) as client:
        for line in lines:
            taken += _span_count(line) - _rejected(_send(client, url, line))
    return taken


def _send(client: httpx2.Client, url: str, line: str) -> httpx2.Response:
    headers = {**_headers(), "content-type": "application/json", "accept": "application/json"}
    request = client.build_request("POST", url, content=line.encode(), headers=headers)
    try:
        reply = exchange(client, request, _MAX_REPLY_BYTES)
    except httpx2.HTTPError as error:
        reason = type(error).__name__
        raise ServerUnavailable(
            f"The collector at {host_of(url)} cannot be reached ({reason}).\n"
            "Start it, or check --endpoint; the same export may be sent again."
        ) from None
    if reply.status_code in {401, 403}:
        raise AuthenticationFailed(
            f"The collector refuses the key (HTTP {reply.status_code}).\nSet {HEADERS_ENV_VAR}."
        )
    if not reply.is_success:
        raise ServerUnavailable(
            f"The collector refuses the spans (HTTP {reply.status_code}).\n"
            "Check that --endpoint takes OTLP over HTTP with JSON."
        )
    return reply


def _headers() -> dict[str, str]:
    """Return the headers of the environment. Raises `CallerError` if they are malformed."""
    headers = {}
    for pair in filter(None, os.environ.get(HEADERS_ENV_VAR, "").split(",")):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise CallerError(
                f"{HEADERS_ENV_VAR} is malformed.\nWrite it as name=value,name=value."
            )
        headers[unquote(name.strip())] = unquote(value.strip())
    return headers


def _span_count(line: str) -> int:
    (resource_spans,) = json.loads(line)["resourceSpans"]
    return sum(len(scope["spans"]) for scope in resource_spans["scopeSpans"])


def _rejected(reply: httpx2.Response) -> int:
    try:
        content: Any = reply.json()
        return int(content.get("partialSuccess", {}).get("rejectedSpans", 0))
    except (ValueError, AttributeError, TypeError):
        return 0
