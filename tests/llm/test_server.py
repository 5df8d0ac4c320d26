"""The list of models, files and batches of an OpenAI-compatible server, and its errors."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from archqa.errors import (
    ArchqaError,
    AuthenticationFailed,
    ModelError,
    Redirected,
    ServerUnavailable,
)
from archqa.llm.model import OfferedModel, find_offered
from archqa.llm.server import ModelServer
from tests.fakes.server import FakeServer

Handler = Callable[[httpx2.Request], httpx2.Response]

KEY = "sk-canary"
RECORD_TEXT = "The patient was given aspirin."


def model_server(
    handler: Handler, base_url: str = "http://127.0.0.1/v1/"
) -> ModelServer:
    return ModelServer(base_url, KEY, transport=httpx2.MockTransport(handler))


def status_reply(status: int) -> Handler:
    """A server that answers every request with this status and quotes key and record text."""
    return lambda request: httpx2.Response(status, text=f"{KEY}: {RECORD_TEXT}")


async def error_of_upload(server: ModelServer, folder: Path) -> ArchqaError:
    path = folder / "round-1.jsonl"
    path.write_text(RECORD_TEXT)
    with pytest.raises(ArchqaError) as caught:
        async with server:
            await server.upload_batch_file(path)
    return caught.value


async def error_of_models(server: ModelServer) -> ArchqaError:
    with pytest.raises(ArchqaError) as caught:
        async with server:
            await server.models()
    return caught.value


async def test_the_models_of_a_server_are_listed_in_its_order() -> None:
    with FakeServer(models=("tiny-7b", "big-70b")) as fake:
        async with ModelServer(fake.base_url, KEY) as server:
            models = await server.models()
    assert [(model.id, model.owned_by) for model in models] == [
        ("tiny-7b", "fake"),
        ("big-70b", "fake"),
    ]


@pytest.mark.parametrize(
    ("row", "context", "trained_context"),
    [
        ({"max_model_len": 16384}, 16384, None),
        ({"meta": {"n_ctx": 8192, "n_ctx_train": 40960}}, 8192, 40960),
        ({"meta": {"n_ctx_train": 40960}}, None, 40960),
        ({"context_length": 131072}, 131072, None),
        ({"context_window": 131072}, 131072, None),
        ({}, None, None),
        ({"max_model_len": "many", "meta": [8192], "owned_by": None}, None, None),
        ({"max_model_len": True, "context_length": -1}, None, None),
    ],
)
async def test_the_context_length_is_read_where_a_server_tells_it(
    row: dict[str, object], context: int | None, trained_context: int | None
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"data": [{"id": "tiny-7b", **row}]})

    async with model_server(answer) as server:
        [model] = await server.models()
    assert (model.context, model.trained_context) == (context, trained_context)


@pytest.mark.parametrize(
    ("name", "found"),
    [("qwen3:8b", "qwen3:8b"), ("qwen3", "qwen3:latest"), ("qwen", None)],
)
def test_a_name_without_a_tag_is_ollamas_latest(name: str, found: str | None) -> None:
    models = [OfferedModel("qwen3:8b"), OfferedModel("qwen3:latest")]
    model = find_offered(name, models)
    assert (model.id if model else None) == found


async def test_a_file_is_uploaded_as_a_form_with_the_key_as_a_bearer_token(
    tmp_path: Path,
) -> None:
    path = tmp_path / "round-1.jsonl"
    path.write_text('{"custom_id": "a"}\n')
    requests = []

    async def keep(request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        requests.append(request)
        return httpx2.Response(200, json={"id": "file-1", "object": "file"})

    async with ModelServer(
        "http://127.0.0.1/v1", KEY, transport=httpx2.MockTransport(keep)
    ) as api:
        assert await api.upload_batch_file(path) == "file-1"
    [request] = requests
    assert (request.method, request.url.path) == ("POST", "/v1/files")
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"].startswith("multipart/form-data; boundary=")
    body = request.content.decode()
    assert 'name="purpose"\r\n\r\nbatch\r\n' in body
    assert 'name="file"; filename="round-1.jsonl"' in body
    assert '\r\n\r\n{"custom_id": "a"}\n\r\n' in body


async def test_a_batch_is_created_from_a_file_for_chat_completions_within_a_day() -> (
    None
):
    bodies = []

    def create(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(200, json={"id": "batch-1", "status": "validating"})

    async with model_server(create) as server:
        batch = await server.create_batch("file-1")
    assert (batch.id, batch.status, batch.request_counts) == (
        "batch-1",
        "validating",
        None,
    )
    assert bodies == [
        {
            "input_file_id": "file-1",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
    ]


async def test_an_id_of_a_server_is_one_part_of_the_path(tmp_path: Path) -> None:
    paths = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.raw_path)
        return httpx2.Response(200, content=b"lines")

    async with model_server(answer) as server:
        await server.save_file("a/b?c", tmp_path / "lines")
    assert (tmp_path / "lines").read_bytes() == b"lines"
    assert paths == [b"/v1/files/a%2Fb%3Fc/content"]


async def test_a_refused_key_is_an_error_of_its_own(tmp_path: Path) -> None:
    for error in (
        await error_of_models(model_server(status_reply(401))),
        await error_of_upload(model_server(status_reply(401)), tmp_path),
    ):
        assert isinstance(error, AuthenticationFailed)
        assert str(error) == (
            "http://127.0.0.1/v1 refuses the key.\nSet OPENAI_API_KEY to one it accepts."
        )


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_refused_batch_names_the_status_and_a_way_without_batches(
    status: int, tmp_path: Path
) -> None:
    error = await error_of_upload(model_server(status_reply(status)), tmp_path)
    assert type(error) is ModelError
    assert f"refuses the batch with HTTP {status}." in str(error)
    assert "--resume" in str(error)


@pytest.mark.parametrize("status", [404, 500])
async def test_a_server_without_a_list_of_models_is_unavailable(status: int) -> None:
    error = await error_of_models(model_server(status_reply(status)))
    assert isinstance(error, ServerUnavailable)
    assert f"does not list its models (HTTP {status})." in str(error)


async def test_a_redirect_is_not_followed() -> None:
    paths = []

    def redirect(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        return httpx2.Response(307, headers={"location": "http://127.0.0.2/elsewhere"})

    error = await error_of_models(model_server(redirect))
    assert isinstance(error, Redirected)
    assert paths == ["/v1/models"]


async def test_a_server_that_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(f"{KEY} {RECORD_TEXT}")

    upload_error = await error_of_upload(model_server(fail), tmp_path)
    models_error = await error_of_models(model_server(fail))
    assert isinstance(upload_error, ServerUnavailable)
    assert "cannot be reached" in str(upload_error)
    assert isinstance(models_error, ServerUnavailable)
    assert "cannot be reached (ConnectError)." in str(models_error)


@pytest.mark.parametrize("content", ["", "<html>", "[]", '{"data": 1}', '{"id": 1}'])
async def test_a_reply_of_another_form_is_an_error(
    content: str, tmp_path: Path
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text=content)

    assert isinstance(await error_of_models(model_server(answer)), ServerUnavailable)
    assert isinstance(await error_of_upload(model_server(answer), tmp_path), ModelError)


@pytest.mark.parametrize("status", [200, 302, 401, 500])
async def test_no_error_shows_a_key_or_record_text(status: int, tmp_path: Path) -> None:
    for error in (
        await error_of_models(model_server(status_reply(status))),
        await error_of_upload(model_server(status_reply(status)), tmp_path),
    ):
        shown = "".join(traceback.format_exception(error))
        assert KEY not in shown
        assert RECORD_TEXT not in shown
