"""One model server, reached through the `openai` SDK: chat completions, models, files and batches.

The SDK knows the API: addresses (Azure's too), parameters and forms. The transport under it is
ours: it adds the key, sends no other header than a plain request needs, follows no redirect, keeps
no cookie, and reads no reply without end. The SDK does not retry, since only our own retries know
the cache and the budget, and takes nothing from the environment: settings decide what of it counts.

It takes 0.7 s to import, so this module is imported with the first request.
Source: OpenAI API reference, "Chat completions", "Models", "Files" and "Batch".
"""

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import httpx2
from pydantic import BaseModel, ValidationError

from archqa.errors import AuthenticationFailed, ModelError, ServerUnavailable
from archqa.llm.batch import BATCH_ENDPOINT
from archqa.llm.model import OfferedModel, TransientError
from archqa.safety.files import private_draft
from archqa.safety.http_replies import (
    ACCEPTED_ENCODING,
    BodyReader,
    ReplyUnreadable,
    is_redirect,
    redirect_error,
)
from archqa.safety.server_urls import AZURE_PARAMETERS, proxy_for, server_identity


@contextmanager
def _without_variable(name: str) -> Iterator[None]:
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


with _without_variable("OPENAI_LOG"):  # It would set up logging for the whole process.
    import openai

MAX_REPLY_BYTES = 16 * 2**20
"""Bytes of one decoded reply but a file."""

MAX_FILE_BYTES = 4 * 2**30
"""Bytes of one batch's results: 50,000 replies of 4,096 tokens are about 1 GiB."""

_SENT_HEADERS = ("accept", "content-type", "content-length", "user-agent")
"""What the server gets of the SDK's headers; the others tell of this machine."""

_NO_KEY = "in the transport"
"""Stands for the key in the SDK, so that no request or error of it can show the key."""

_AZURE_DOMAINS = (
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
)
_AZURE_DEPLOYMENTS = "/openai/deployments/"
_ENTRA_TOKEN = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]+")
"""A JSON Web Token, which Azure takes as a bearer; its keys are no such tokens."""


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


class _ListedModel(BaseModel):
    """One row of the reply to `GET /models`. Only the id is needed."""

    id: str
    owned_by: Any = None
    max_model_len: Any = None
    context_length: Any = None
    context_window: Any = None
    meta: Any = None


class _ModelList(BaseModel):
    data: list[_ListedModel]


class ModelServer:
    """Sends requests to one server; `base_url` was checked before.

    `timeout` is in seconds: of a whole reply, for a file of each step. `transport` replaces the
    network, for tests. Every error is a `ModelError` (`AuthenticationFailed` for a refused key,
    `ServerUnavailable` without a reply, `Redirected`) or, for a chat completion that may succeed
    when it is repeated, a `TransientError`. No message quotes a key, a request or a reply.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        timeout: float = 180.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.name = server_identity(base_url)
        # The proxy is looked up once: aiohttp's `trust_env` does it for each request, in another
        # thread, at a tenth of a call's cost.
        inner = transport or _AiohttpTransport(proxy_for(base_url))
        guarded = _GuardedTransport(inner, base_url, key)
        http_client = httpx2.AsyncClient(
            transport=guarded, follow_redirects=False, trust_env=False
        )
        self._client = _open_client(base_url, timeout, http_client)

    async def chat(self, body: dict[str, Any]) -> httpx2.Response:
        """The whole response to a chat completion (`POST /chat/completions`), also a refusal.

        Raises `TransientError` without a complete response, `ServerUnavailable` for one without
        end, `Redirected`.
        """
        create = self._client.chat.completions.with_raw_response.create
        try:
            # As `extra_body` all of it is sent as it is, also what only some providers have.
            raw = await create(
                model=body["model"], messages=body["messages"], extra_body=body
            )
            return raw.http_response
        except openai.APIStatusError as refusal:
            return refusal.response
        except openai.APITimeoutError:
            fault = "the server did not answer in time"
        except openai.APIConnectionError:
            fault = "the connection failed"
        except ReplyUnreadable as problem:
            raise ServerUnavailable(
                f"A reply of {self.name} {problem}.\nCheck --base-url: a model's replies are short."
            ) from None
        # Outside of the handlers: the SDK's error, which has the prompt, must not be its context.
        raise TransientError(fault)

    async def models(self) -> list[OfferedModel]:
        """The models that the server lists (`GET /models`), in its order."""
        try:
            reply = await self._client.models.with_raw_response.list()
            models = _ModelList.model_validate_json(reply.content)
        except openai.APIStatusError as refusal:
            self._check_key(refusal.status_code)
            self._raise_no_list(f"HTTP {refusal.status_code}")
        except openai.APIConnectionError as error:
            fault = type(error.__cause__).__name__
            if not isinstance(
                error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout
            ):
                self._raise_no_list(fault)
            raise ServerUnavailable(
                f"{self.name} cannot be reached ({fault}).\n"
                "Check --base-url and whether the server runs."
            ) from None
        except ReplyUnreadable as problem:
            self._raise_no_list(f"the reply {problem}")
        except ValidationError:
            self._raise_no_list("the reply is not a list of models")
        return [_offered_model(row) for row in models.data]

    async def upload_batch_file(self, path: Path) -> str:
        """Upload the requests of a batch (`POST /files`) and return the file's id."""
        upload = self._client.files.with_raw_response.create
        with self._batch_errors(), path.open("rb") as file:
            content = (path.name, file, "application/jsonl")
            reply = await upload(file=content, purpose="batch")
            return UploadedFile.model_validate_json(reply.content).id

    async def create_batch(self, file_id: str) -> ServerBatch:
        """Submit the requests of an uploaded file (`POST /batches`)."""
        with self._batch_errors():
            reply = await self._client.batches.with_raw_response.create(
                input_file_id=file_id,
                endpoint=BATCH_ENDPOINT,
                completion_window="24h",
            )
            return ServerBatch.model_validate_json(reply.content)

    async def batch(self, batch_id: str) -> ServerBatch:
        """The state of a batch (`GET /batches/{id}`)."""
        with self._batch_errors():
            reply = await self._client.batches.with_raw_response.retrieve(batch_id)
            return ServerBatch.model_validate_json(reply.content)

    async def save_file(self, file_id: str, path: Path) -> None:
        """Write a file of the server (`GET /files/{id}/content`) to a path, readable by its owner.

        Raises `OSError`.
        """
        with self._batch_errors():
            download = self._client.files.with_streaming_response.content(file_id)
            async with download as reply:
                with private_draft(path) as file:
                    async for part in reply.iter_bytes():
                        file.write(part)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextmanager
    def _batch_errors(self) -> Iterator[None]:
        """Turn errors of the SDK, of the connection and of a reply into those of archqa."""
        try:
            yield
        except openai.APIStatusError as refusal:
            self._check_key(refusal.status_code)
            problem = f"refuses the batch with HTTP {refusal.status_code}"
        except (openai.APIConnectionError, httpx2.HTTPError):
            raise ServerUnavailable(
                f"{self.name} cannot be reached.\nTry again later; nothing is lost."
            ) from None
        except ReplyUnreadable as unreadable:
            problem = f"sends a reply that {unreadable}"
        except (
            ValueError
        ):  # A reply of another form, or an id that no address can have.
            problem = "sends a reply that the Batch API does not have"
        else:
            return
        raise ModelError(
            f"{self.name} {problem}.\n"
            "Not every server has the Batch API; `archqa predict --resume` needs none."
        ) from None

    def _check_key(self, status: int) -> None:
        if status == 401:
            raise AuthenticationFailed(
                f"{self.name} refuses the key.\nSet OPENAI_API_KEY to one it accepts."
            ) from None

    def _raise_no_list(self, reason: str) -> NoReturn:
        raise ServerUnavailable(
            f"{self.name} does not list its models ({reason}).\n"
            "Check --base-url and whether the server runs."
        ) from None


def _open_client(
    base_url: str, timeout: float, http_client: httpx2.AsyncClient
) -> openai.AsyncOpenAI:
    """The SDK's client. Each option that it would take from the environment is passed."""
    address, _, query = base_url.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    options: dict[str, Any] = {
        "api_key": _NO_KEY,
        "admin_api_key": "",
        "organization": "",
        "project": "",
        "webhook_secret": "",
        "timeout": timeout,
        "max_retries": 0,
        "default_query": parameters,
        "http_client": http_client,
    }
    endpoint, separator, deployment = address.rstrip("/").partition(_AZURE_DEPLOYMENTS)
    with _without_variable("OPENAI_CUSTOM_HEADERS"):
        if not separator or "api-version" not in parameters:
            return openai.AsyncOpenAI(base_url=address, **options)
        # Azure has the list of models, files and batches not below a deployment but next to it.
        return openai.AsyncAzureOpenAI(
            azure_endpoint=endpoint,
            azure_deployment=deployment,
            api_version=parameters["api-version"],
            **options,
        )


def _key_headers(base_url: str, key: str) -> dict[str, str]:
    """The header that carries a key: `api-key` at Azure, else `Authorization`.

    Azure is known by its domain or, behind a gateway of the user's, by a parameter that only Azure
    has.
    Source, as remembered in November 2026: Azure OpenAI REST reference, "Authentication".
    """
    parts = urlsplit(base_url)
    parameters = {name.lower() for name, _ in parse_qsl(parts.query)}
    host = (parts.hostname or "").lower()
    is_azure = host.endswith(_AZURE_DOMAINS) or bool(parameters & AZURE_PARAMETERS)
    if is_azure and not _ENTRA_TOKEN.fullmatch(key):
        return {"api-key": key}
    return {"Authorization": f"Bearer {key}"}


def _offered_model(row: _ListedModel) -> OfferedModel:
    """A row as a model.

    The context length stands under other names with each server: `max_model_len` (vLLM),
    `meta.n_ctx` and `meta.n_ctx_train` (llama.cpp), `context_length` (OpenRouter, Together),
    `context_window` (Groq). What is absent or of another type is unknown.
    """
    meta = row.meta if isinstance(row.meta, dict) else {}
    context = None
    for value in (
        row.max_model_len,
        row.context_length,
        row.context_window,
        meta.get("n_ctx"),
    ):
        context = context or _token_count(value)
    return OfferedModel(
        id=row.id,
        owned_by=row.owned_by if isinstance(row.owned_by, str) else "",
        context=context,
        trained_context=_token_count(meta.get("n_ctx_train")),
    )


def _token_count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count else None


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Decides what goes to the server and how much comes back; `inner` sends and receives."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, base_url: str, key: str
    ) -> None:
        self._inner = inner
        self._base_url = base_url
        self._headers = {
            **_key_headers(base_url, key),
            "Accept-Encoding": ACCEPTED_ENCODING,
        }

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response; its body, of limited length, is read afterwards.

        Raises `httpx2.TransportError`, `Redirected` and, as the body is read, `ReplyUnreadable`.
        """
        headers = httpx2.Headers(
            self._headers, encoding="utf-8"
        )  # As a key may be typed wrongly.
        for name in _SENT_HEADERS:
            if name in request.headers:
                headers[name] = request.headers[name]
        response = await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                request.url,
                headers=headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )
        if is_redirect(response.status_code):
            await response.aclose()
            location = response.headers.get("Location", "")
            raise redirect_error(self._base_url, response.status_code, location)
        encoding = response.headers.pop("Content-Encoding", "")
        limit = MAX_FILE_BYTES if _is_download(request) else MAX_REPLY_BYTES
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = _Body(response.stream, encoding, limit)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=body
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


@dataclass
class _Body(httpx2.AsyncByteStream):
    """The decoded parts of a body, up to `limit` bytes. Raises `ReplyUnreadable`.

    It is decoded here, since httpx2 decodes each part whole, however large it becomes.
    """

    stream: httpx2.AsyncByteStream
    encoding: str
    limit: int

    async def __aiter__(self) -> AsyncIterator[bytes]:
        reader = BodyReader(self.encoding, self.limit)
        async for part in self.stream:
            yield reader.decode(part)
        reader.finish()

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end."""
        await self.stream.aclose()


class _AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends requests by aiohttp, which takes a quarter of the processor time that httpx2's own
    transport does: a run makes thousands.
    """

    def __init__(self, proxy: str | None) -> None:
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response as it begins; its body is read afterwards. Raises `httpx2.TransportError`."""
        seconds = request.extensions["timeout"]["read"]
        timeout = aiohttp.ClientTimeout(total=seconds)
        is_upload = request.headers.get("content-type", "").startswith(
            "multipart/form-data"
        )
        if is_upload or _is_download(request):
            timeout = aiohttp.ClientTimeout(sock_connect=seconds, sock_read=seconds)
        with _http_errors():
            response = await self._open_session().request(
                request.method,
                str(request.url),
                headers=request.headers,
                data=None if request.method == "GET" else request.stream,
                allow_redirects=False,
                timeout=timeout,
            )
        stream = _AiohttpStream(response)
        return httpx2.Response(
            response.status, headers=response.raw_headers, stream=stream
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        """The session, created with the first request: it belongs to the event loop of that moment."""
        if self._session is None:
            # No limit of connections: the rate limiter decides how many requests are in flight.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # `BodyReader` decodes, no further than the limit.
                proxy=self._proxy,
            )
        return self._session


class _AiohttpStream(httpx2.AsyncByteStream):
    """The body of a response as the server sends it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _http_errors():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._response.close()


def _is_download(request: httpx2.Request) -> bool:
    return request.method == "GET" and request.url.path.endswith("/content")


@contextmanager
def _http_errors() -> Iterator[None]:
    """Raise what aiohttp raises as httpx2 does, without a text: it may have the address."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise httpx2.ConnectTimeout("") from None
    except TimeoutError:
        raise httpx2.ReadTimeout("") from None
    except aiohttp.ClientConnectorError:
        raise httpx2.ConnectError("") from None
    except (aiohttp.ClientError, OSError):
        raise httpx2.ReadError("") from None
