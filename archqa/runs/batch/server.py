"""The files of a batch run at the server: upload, status, fetch (OpenAI API, Batch and Files)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from archqa.errors import AuthenticationFailed, ModelError, ServerUnavailable
from archqa.llm.batch import BATCH_ENDPOINT
from archqa.runs.batch.batch_run import BatchRound, BatchRun
from archqa.runs.model_server import open_client
from archqa.settings import Settings

if TYPE_CHECKING:
    import openai

WINDOW: Literal["24h"] = "24h"

_FINAL_STATUSES = frozenset({"completed", "expired", "cancelled", "failed"})


async def upload(run: BatchRun, settings: Settings) -> list[BatchRound]:
    """Submit every round that is written and not yet submitted. Raises `ModelError`."""
    async with _client(settings) as client:
        submitted = []
        for batch_round in _with_status(run, "written"):
            submitted.append(await _upload(client, run, batch_round))
        return submitted


async def statuses(run: BatchRun, settings: Settings) -> dict[int, str]:
    """Round number to the server's status of its batch. Raises `ModelError`."""
    async with _client(settings) as client:
        status_by_round = {}
        for batch_round in _with_status(run, "submitted"):
            status_by_round[batch_round.number] = await _status(client, batch_round)
        return status_by_round


async def fetch(run: BatchRun, settings: Settings) -> int:
    """Store the replies of every batch that is over; returns their number. Raises `ModelError`."""
    async with _client(settings) as client:
        replies = 0
        for batch_round in _with_status(run, "submitted"):
            replies += await _fetch(client, run, batch_round)
        return replies


def _with_status(run: BatchRun, status: str) -> list[BatchRound]:
    return [batch_round for batch_round in run.rounds if batch_round.status == status]


async def _upload(client: "openai.AsyncOpenAI", run: BatchRun, written: BatchRound) -> BatchRound:
    file = await client.files.create(file=run.input_path(written), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id, endpoint=BATCH_ENDPOINT, completion_window=WINDOW
    )
    submitted = written.model_copy(update={"status": "submitted", "batch_id": batch.id})
    run.replace(submitted)
    return submitted


async def _status(client: "openai.AsyncOpenAI", submitted: BatchRound) -> str:
    batch = await client.batches.retrieve(submitted.batch_id or "")
    counts = batch.request_counts
    if counts is None:
        return str(batch.status)
    return f"{batch.status}, {counts.completed} of {counts.total} done"


async def _fetch(client: "openai.AsyncOpenAI", run: BatchRun, submitted: BatchRound) -> int:
    batch = await client.batches.retrieve(submitted.batch_id or "")
    if batch.status not in _FINAL_STATUSES:
        return 0
    replies = 0
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id:
            content = await client.files.content(file_id)
            replies += run.take(_save(run, submitted, file_id, content.content))
    run.replace(submitted.model_copy(update={"status": "fetched"}))
    return replies


def _save(run: BatchRun, submitted: BatchRound, file_id: str, content: bytes) -> Path:
    """Write the server's file next to the round's input.

    It has record text, so only its owner can read it.
    """
    path = run.input_path(submitted).with_suffix(f".{file_id}.out.jsonl")
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator["openai.AsyncOpenAI"]:
    """A client whose errors are ours."""
    import openai

    client = open_client(settings, settings.base_url)
    try:
        yield client
    except openai.AuthenticationError:
        raise AuthenticationFailed(
            f"{client.base_url} refuses the key.\nSet OPENAI_API_KEY to one it accepts."
        ) from None
    except openai.APIConnectionError:
        raise ServerUnavailable(
            f"{client.base_url} cannot be reached.\nTry again later; nothing is lost."
        ) from None
    except openai.APIStatusError as error:
        problem = f"{client.base_url} refuses the batch with HTTP {error.status_code}."
        raise ModelError(
            f"{problem}\nNot every server has the Batch API; `archqa predict --resume` needs none."
        ) from None
    finally:
        await client.close()
