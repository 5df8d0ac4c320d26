"""A batched run's files at the server: upload, ask how they stand, fetch what came (OpenAI API, "Batch", "Files")."""

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

_OVER = frozenset({"completed", "expired", "cancelled", "failed"})


async def upload(run: BatchRun, settings: Settings) -> list[BatchRound]:
    """Hand in every file that is written and not yet submitted. Raises `ModelError`."""
    async with _client(settings) as client:
        return [await _upload(client, run, each) for each in run.rounds if each.status == "written"]


async def statuses(run: BatchRun, settings: Settings) -> dict[int, str]:
    """Round number to how the server says its batch stands. Raises `ModelError`."""
    async with _client(settings) as client:
        return {
            each.number: await _status(client, each)
            for each in run.rounds
            if each.status == "submitted"
        }


async def fetch(run: BatchRun, settings: Settings) -> int:
    """Keep the replies of every batch that is over; returns how many came. Raises `ModelError`."""
    async with _client(settings) as client:
        return sum(
            [await _fetch(client, run, each) for each in run.rounds if each.status == "submitted"]
        )


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
    return (
        f"{batch.status}, {counts.completed} of {counts.total} done"
        if counts
        else str(batch.status)
    )


async def _fetch(client: "openai.AsyncOpenAI", run: BatchRun, submitted: BatchRound) -> int:
    batch = await client.batches.retrieve(submitted.batch_id or "")
    if batch.status not in _OVER:
        return 0
    taken = 0
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id:
            content = await client.files.content(file_id)
            taken += run.take(_kept(run, submitted, file_id, content.content))
    run.replace(submitted.model_copy(update={"status": "fetched"}))
    return taken


def _kept(run: BatchRun, submitted: BatchRound, file_id: str, content: bytes) -> Path:
    """The file as it came, beside the round's input; it holds record text."""
    path = run.input_path(submitted).with_suffix(f".{file_id}.out.jsonl")
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator["openai.AsyncOpenAI"]:
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
        why = f"{client.base_url} refuses the batch with HTTP {error.status_code}."
        raise ModelError(
            f"{why}\nNot every server has the Batch API; `archqa predict --resume` needs none."
        ) from None
    finally:
        await client.close()
