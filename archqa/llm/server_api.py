"""The part of the OpenAI API that is not chat: the list of models, and files and batches.

A command sends a handful of these requests, so the plain HTTP client of the FHIR part does; chat
completions go through `archqa.llm.transport`.
Source: OpenAI API reference, "Models", "Files" and "Batch".
"""

from pathlib import Path
from typing import NoReturn, Self, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError

from archqa.core.server_urls import server_identity
from archqa.errors import AuthenticationFailed, CallerError, ModelError, ServerUnavailable
from archqa.llm.batch import BATCH_ENDPOINT

COMPLETION_WINDOW = "24h"

_UNAUTHORIZED = 401


class ModelEntry(BaseModel):
    """A model in the server's list."""

    id: str


class ModelList(BaseModel):
    """The reply to `GET /models`."""

    data: list[ModelEntry]


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


_Reply = TypeVar("_Reply", bound=BaseModel)


class ServerApi:
    """Sends requests to one server; `timeout` is in seconds, for each step of a request.

    Raises `CallerError` for an invalid URL. Every later error is a `ModelError`:
    `AuthenticationFailed` for a refused key, `ServerUnavailable` without a reply.
    No message quotes a key, a request or a reply.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        timeout: float = 180.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        try:
            httpx2.URL(base_url)
            # For messages: without user name and password.
            self._name = server_identity(base_url)
        except (httpx2.InvalidURL, ValueError):
            raise CallerError("The model server's base URL is not a URL.") from None
        self._base_url = base_url.rstrip("/")
        # Redirects are not followed: neither key nor record text may travel to another address.
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"},
            timeout=timeout,
            transport=transport,
            follow_redirects=False,
        )

    async def models(self) -> list[str]:
        """The names of the models that the server lists."""
        try:
            response = await self._http.get(f"{self._base_url}/models")
        except httpx2.HTTPError as error:
            self._raise_no_list(type(error).__name__)
        self._check_key(response)
        if not response.is_success:
            self._raise_no_list(f"HTTP {response.status_code}")
        try:
            models = ModelList.model_validate_json(response.content)
        except ValidationError:
            self._raise_no_list("the reply is not a list of models")
        return [model.id for model in models.data]

    async def upload_batch_file(self, path: Path) -> str:
        """Upload the requests of a batch (`POST /files`) and return the file's id."""
        with path.open("rb") as file:
            request = self._http.build_request(
                "POST",
                f"{self._base_url}/files",
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
        url = f"{self._base_url}/batches"
        response = await self._send(self._http.build_request("POST", url, json=batch_request))
        return self._parse(ServerBatch, response)

    async def batch(self, batch_id: str) -> ServerBatch:
        """The state of a batch (`GET /batches/{id}`)."""
        response = await self._get(f"/batches/{quote(batch_id, safe='')}")
        return self._parse(ServerBatch, response)

    async def file_content(self, file_id: str) -> bytes:
        """The content of a file (`GET /files/{id}/content`)."""
        response = await self._get(f"/files/{quote(file_id, safe='')}/content")
        return response.content

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _get(self, path: str) -> httpx2.Response:
        return await self._send(self._http.build_request("GET", self._base_url + path))

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request about files or batches; only a successful response is returned."""
        try:
            response = await self._http.send(request)
        except httpx2.HTTPError:
            raise ServerUnavailable(
                f"{self._name} cannot be reached.\nTry again later; nothing is lost."
            ) from None
        self._check_key(response)
        if not response.is_success:
            self._raise_no_batch(f"refuses the batch with HTTP {response.status_code}")
        return response

    def _parse(self, reply_class: type[_Reply], response: httpx2.Response) -> _Reply:
        try:
            return reply_class.model_validate_json(response.content)
        except ValidationError:
            self._raise_no_batch("sends a reply that the Batch API does not have")

    def _check_key(self, response: httpx2.Response) -> None:
        if response.status_code == _UNAUTHORIZED:
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
