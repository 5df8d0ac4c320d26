"""Ways to reach a FHIR service without a network."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import httpx2

from archqa.fhir import (
    FhirClient,
    FhirService,
)
from archqa.fhir.server.application import FhirApplication

BASE = "http://localhost:8080/fhir"


def client_of(service: FhirService, **options: Any) -> FhirClient:
    """A client whose requests go straight to a service."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        url = str(request.url).removeprefix(service.base).lstrip("/")
        body = request.content.decode()
        reply = service.handle(request.method, url, body, dict(request.headers))
        headers = dict(reply.headers)
        return httpx2.Response(
            reply.status, headers=headers, content=reply.body.encode()
        )

    return FhirClient(service.base, transport=httpx2.MockTransport(answer), **options)


def ids_on_all_pages(service: FhirService, url: str) -> list[str]:
    """The ids on all pages, following the links; not those of outcomes."""
    ids: list[str] = []
    while url:
        bundle = service.get(url).json()
        for entry in bundle.get("entry", []):
            if entry["search"]["mode"] != "outcome":
                ids.append(entry["resource"]["id"])
        links = {link["relation"]: link["url"] for link in bundle["link"]}
        url = links.get("next", "")
    return ids


async def send_request(
    application: FhirApplication,
    method: str,
    target: str,
    body: bytes = b"",
    **headers: str,
) -> tuple[int, str]:
    """Send one request as uvicorn does; return status and body of the reply."""
    path, _, query = target.partition("?")
    encoded_headers = [(b"host", b"localhost:8080")]
    if method == "POST":
        encoded_headers.append((b"content-type", _content_type(path)))
    for name, value in headers.items():
        encoded_headers.append((name.encode(), value.encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": query.encode("utf-8", "surrogatepass"),
        "headers": encoded_headers,
    }
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        messages.append(message)

    await application(scope, receive, send)
    start, *parts = messages
    return start["status"], b"".join(part["body"] for part in parts).decode()


class Reply(NamedTuple):
    """A reply over HTTP, as it was sent."""

    status: int
    headers: dict[str, str]
    body: bytes


async def ask(
    application: FhirApplication,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Iterable[tuple[str, str]] = (),
) -> Reply:
    """Send one request with these headers, a Host unless they have one; return the reply."""
    path, _, query = target.partition("?")
    pairs = list(headers)
    if "host" not in dict(pairs):
        pairs.append(("host", "localhost:8080"))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in pairs],
    }
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        messages.append(message)

    await application(scope, receive, send)
    start, body_message = messages
    sent: dict[str, str] = {}
    for raw_name, raw_value in start["headers"]:
        name, value = raw_name.decode(), raw_value.decode()
        sent[name] = f"{sent[name]}, {value}" if name in sent else value
    return Reply(start["status"], sent, body_message["body"])


def _content_type(path: str) -> bytes:
    is_search = path.endswith("/_search")
    return (
        b"application/x-www-form-urlencoded" if is_search else b"application/fhir+json"
    )


def post_scope(path: str) -> dict[str, Any]:
    """The scope of a POST whose body the test sends itself."""
    headers = [(b"host", b"localhost:8080"), (b"content-type", _content_type(path))]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b""}
    return {**scope, "headers": headers}
