"""The part of the OpenAI API that is not chat: the list of models, and files and batches.

A command sends a handful of these requests, so the plain HTTP client of the FHIR part does; chat
completions go through `archqa.llm.transport`.
Source: OpenAI API reference, "Models", "Files" and "Batch".
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import NamedTuple, NoReturn, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError

from archqa.errors import AuthenticationFailed, CallerError, ModelError, ServerUnavailable
from archqa.llm.batch import BATCH_ENDPOINT
from archqa.llm.offered_models import ModelList, OfferedModel
from archqa.llm.providers import key_headers
from archqa.safety.base_urls import join_path, model_server_problem
from archqa.safety.http_replies import (
    ACCEPTED_ENCODING,
    BodyReader,
    ReplyUnreadable,
    is_redirect,
    redirect_error,
)
from archqa.safety.private_files import private_draft
from archqa.safety.server_urls import proxy_for, server_identity

COMPLETION_WINDOW = "24h"

MAX_REPLY_BYTES = 16 * 2**20
"""Bytes of one decoded reply but a file."""

MAX_FILE_BYTES = 4 * 2**30
"""Bytes of one batch's results: 50,000 replies of 4,096 tokens are about 1 GiB."""

_FIRST_ERROR = 400
_UNAUTHORIZED = 401


class UploadedFile(BaseModel):
    """The reply to an upload."""

    id: str


class RequestCounts(BaseModel):
    """Requests of a batch."""

    total: int
    completed: int
    failed: int


class ServerBatch(BaseModel):
    """A batch as the server describes it."""

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: RequestCounts | None = None


class _Response(NamedTuple):
    """A whole reply."""

    status: int
    content: bytes


_Reply = TypeVar("_Reply", bound=BaseModel)


class ServerApi:
    """Sends requests to one server; `timeout` is in seconds, for each step of a request.

    Raises `CallerError` for an invalid URL. Every later error is a `ModelError`:
    `AuthenticationFailed` for a refused key, `ServerUnavailable` without a reply, `Redirected` for
    a redirect.
    No message quotes a key, a request or a reply.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        timeout: float = 180.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        problem = model_server_problem(base_url)
        if problem:
            raise CallerError(f"The model server's base URL {problem}.")
        self._name = server_identity(base_url)
        self._base_url = base_url.rstrip("/")
        # Redirects are not followed: neither key nor record text may travel to another address.
        self._http = httpx2.AsyncClient(
            headers={**key_headers(base_url, key), "Accept-Encoding": ACCEPTED_ENCODING},
            timeout=timeout,
            # With a transport of its own, httpx2 looks for no other proxy than the one that is said.
            transport=transport or httpx2.AsyncHTTPTransport(proxy=proxy_for(base_url)),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    async def models(self) -> list[OfferedModel]:
        """The models that the server lists, in its order."""
        try:
            async with self._reply(self._request("GET", "/models")) as reply:
                response = await self._read(reply)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise ServerUnavailable(
                f"{self._name} cannot be reached ({type(error).__name__}).\n"
                "Check --base-url and whether the server runs."
            ) from None
        except httpx2.HTTPError as error:
            self._raise_no_list(type(error).__name__)
        except ReplyUnreadable as problem:
            self._raise_no_list(f"the reply {problem}")
        if response.status >= _FIRST_ERROR:
            self._raise_no_list(f"HTTP {response.status}")
        try:
            models = ModelList.model_validate_json(response.content)
        except ValidationError:
            self._raise_no_list("the reply is not a list of models")
        return [entry.offered for entry in models.data]

    async def upload_batch_file(self, path: Path) -> str:
        """Upload the requests of a batch (`POST /files`) and return the file's id."""
        with path.open("rb") as file:
            request = self._http.build_request(
                "POST",
                join_path(self._base_url, "/files"),
                data={"purpose": "batch"},
                files={"file": (path.name, file, "application/jsonl")},
            )
            response = await self._send(request)
        return self._parse(UploadedFile, response).id

    async def create_batch(self, file_id: str) -> ServerBatch:
        """Submit the requests of an uploaded file (`POST /batches`)."""
        batch_request = {
            "input_file_id": file_id,
            "endpoint": BATCH_ENDPOINT,
            "completion_window": COMPLETION_WINDOW,
        }
        url = join_path(self._base_url, "/batches")
        response = await self._send(self._http.build_request("POST", url, json=batch_request))
        return self._parse(ServerBatch, response)

    async def batch(self, batch_id: str) -> ServerBatch:
        """The state of a batch (`GET /batches/{id}`)."""
        request = self._request("GET", f"/batches/{quote(batch_id, safe='')}")
        response = await self._send(request)
        return self._parse(ServerBatch, response)

    async def save_file(self, file_id: str, path: Path) -> None:
        """Write a file of the server (`GET /files/{id}/content`) to a path, readable by its owner.

        Raises `OSError`.
        """
        request = self._request("GET", f"/files/{quote(file_id, safe='')}/content")
        with self._batch_errors():
            async with self._reply(request) as reply:
                self._check_success(reply.status_code)
                with private_draft(path) as file:
                    async for part in _decoded(reply, MAX_FILE_BYTES):
                        file.write(part)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _request(self, method: str, path: str) -> httpx2.Request:
        return self._http.build_request(method, join_path(self._base_url, path))

    @asynccontextmanager
    async def _reply(self, request: httpx2.Request) -> AsyncIterator[httpx2.Response]:
        """The open reply to a request; a redirect or a refused key is an error."""
        reply = await self._http.send(request, stream=True)
        try:
            if is_redirect(reply.status_code):
                location = reply.headers.get("location", "")
                raise redirect_error(self._base_url, reply.status_code, location)
            self._check_key(reply.status_code)
            yield reply
        finally:
            await reply.aclose()

    async def _read(self, reply: httpx2.Response) -> _Response:
        parts = [part async for part in _decoded(reply, MAX_REPLY_BYTES)]
        return _Response(reply.status_code, b"".join(parts))

    async def _send(self, request: httpx2.Request) -> _Response:
        """Send a request about files or batches; only a successful response is returned."""
        with self._batch_errors():
            async with self._reply(request) as reply:
                self._check_success(reply.status_code)
                return await self._read(reply)

    @contextmanager
    def _batch_errors(self) -> Iterator[None]:
        """Turn errors of the connection and of a body into those of archqa."""
        try:
            yield
        except httpx2.HTTPError:
            raise ServerUnavailable(
                f"{self._name} cannot be reached.\nTry again later; nothing is lost."
            ) from None
        except ReplyUnreadable as problem:
            self._raise_no_batch(f"sends a reply that {problem}")

    def _parse(self, reply_class: type[_Reply], response: _Response) -> _Reply:
        try:
            return reply_class.model_validate_json(response.content)
        except ValidationError:
            self._raise_no_batch("sends a reply that the Batch API does not have")

    def _check_success(self, status: int) -> None:
        if status >= _FIRST_ERROR:
            self._raise_no_batch(f"refuses the batch with HTTP {status}")

    def _check_key(self, status: int) -> None:
        if status == _UNAUTHORIZED:
            raise AuthenticationFailed(
                f"{self._name} refuses the key.\nSet OPENAI_API_KEY to one it accepts."
            )

    def _raise_no_list(self, reason: str) -> NoReturn:
        raise ServerUnavailable(
            f"{self._name} does not list its models ({reason}).\n"
            "Check --base-url and whether the server runs."
        ) from None

    def _raise_no_batch(self, problem: str) -> NoReturn:
        raise ModelError(
            f"{self._name} {problem}.\n"
            "Not every server has the Batch API; `archqa predict --resume` needs none."
        ) from None


async def _decoded(reply: httpx2.Response, limit: int) -> AsyncIterator[bytes]:
    """The parts of a body, unpacked, up to `limit` bytes. Raises `ReplyUnreadable`.

    The stream is read below httpx2, which unpacks each part whole, however large it becomes.
    """
    assert isinstance(reply.stream, httpx2.AsyncByteStream)
    reader = BodyReader(reply.headers.get("content-encoding", ""), limit)
    async for part in reply.stream:
        yield reader.decode(part)
    reader.finish()
