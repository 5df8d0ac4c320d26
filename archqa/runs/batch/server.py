"""The files of a batch run at the server: upload, status, fetch (OpenAI API, Batch and Files)."""

import re
from pathlib import Path

from archqa.errors import CallerError
from archqa.llm.server_api import ServerApi
from archqa.runs.batch.batch_run import BatchRound, BatchRun
from archqa.runs.destinations import Announce, Announcer, model_server
from archqa.runs.model_server import open_server_api
from archqa.runs.models import no_server_asked_for
from archqa.safety.server_urls import server_identity
from archqa.settings import Settings

_FINAL_STATUSES = frozenset({"completed", "expired", "cancelled", "failed"})


def check_server(run: BatchRun, settings: Settings) -> None:
    """Raise `CallerError` unless the server of the settings is the one that the run began with.

    The server in `run.json` is not taken over: whoever hands over a run would get the user's key.
    """
    if not settings.has_model:
        raise no_server_asked_for("A batch needs a model")
    begun_at = server_identity(run.base_url)
    if server_identity(settings.base_url) != begun_at:
        raise CallerError(
            f"{run.folder.path} was begun at {begun_at}, which is not the server that is set up.\n"
            f"If you trust it, name it again: --base-url {begun_at}"
        )


async def upload(
    run: BatchRun, settings: Settings, announce: Announce | None = None
) -> list[BatchRound]:
    """Submit every round that is written and not yet submitted. Raises `ModelError`.

    `announce` is called before with the server that gets record text; by default a log
    warning names it.
    """
    destination = model_server(settings.base_url)
    run.add_destination(str(destination))
    announce = announce or Announcer()
    announce([destination])
    async with open_server_api(settings) as server:
        submitted = []
        for batch_round in _with_status(run, "written"):
            submitted.append(await _upload(server, run, batch_round))
        return submitted


async def statuses(run: BatchRun, settings: Settings) -> dict[int, str]:
    """Round number to the server's status of its batch. Raises `ModelError`."""
    async with open_server_api(settings) as server:
        status_by_round = {}
        for batch_round in _with_status(run, "submitted"):
            status_by_round[batch_round.number] = await _status(server, batch_round)
        return status_by_round


async def fetch(run: BatchRun, settings: Settings) -> int:
    """Store the replies of every batch that is over; returns their number. Raises `ModelError`."""
    async with open_server_api(settings) as server:
        replies = 0
        for batch_round in _with_status(run, "submitted"):
            replies += await _fetch(server, run, batch_round)
        return replies


def _with_status(run: BatchRun, status: str) -> list[BatchRound]:
    return [batch_round for batch_round in run.rounds if batch_round.status == status]


async def _upload(server: ServerApi, run: BatchRun, written: BatchRound) -> BatchRound:
    file_id = await server.upload_batch_file(run.input_path(written))
    batch = await server.create_batch(file_id)
    submitted = written.model_copy(update={"status": "submitted", "batch_id": batch.id})
    run.replace(submitted)
    return submitted


async def _status(server: ServerApi, submitted: BatchRound) -> str:
    batch = await server.batch(submitted.batch_id or "")
    counts = batch.request_counts
    if counts is None:
        return batch.status
    return f"{batch.status}, {counts.completed} of {counts.total} done"


async def _fetch(server: ServerApi, run: BatchRun, submitted: BatchRound) -> int:
    batch = await server.batch(submitted.batch_id or "")
    if batch.status not in _FINAL_STATUSES:
        return 0
    replies = 0
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id:
            path = _output_path(run, submitted, file_id)
            await server.save_file(file_id, path)
            replies += run.take(path)
    run.replace(submitted.model_copy(update={"status": "fetched"}))
    return replies


def _output_path(run: BatchRun, submitted: BatchRound, file_id: str) -> Path:
    """Where the server's file is kept: next to the round's input."""
    safe_id = re.sub(r"[^\w.-]", "_", file_id)
    return run.input_path(submitted).with_suffix(f".{safe_id}.out.jsonl")
