"""A run by the Batch API: each round writes requests to a file, and replies advance the cases.

    batch/rounds.json        every file: its requests, its batch at the server, its status
    batch/round-<n>.jsonl    the requests of a round
    batch/replies.db         all replies received

`BatchRun.advance` runs every open case again from its start with the replies received, up to the
first reply that is missing. A repair or compression turn is just another request of the next file.
It waits for no server: everything is read from files. `upload`, `statuses` and `fetch` exchange
them with a server (OpenAI API, Batch and Files).
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from pydantic import ValidationError

from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.llm.batch import (
    MAX_REQUESTS_PER_FILE,
    BatchModel,
    BatchReply,
    ReplyPending,
    batch_request_line,
    read_batch_output,
)
from archqa.llm.cache import ServerCache, SqliteCache
from archqa.llm.dialect import Dialect
from archqa.llm.model import Request
from archqa.runs.backends import Backends
from archqa.runs.destinations import Announce, model_server
from archqa.runs.event_loop import run_sync
from archqa.runs.folder import RunFolder
from archqa.runs.model_server import no_server_asked_for, open_server
from archqa.runs.open_run import new_folder
from archqa.runs.plan import Plan
from archqa.runs.record import RunStatus
from archqa.runs.run import Run
from archqa.runs.runner import Job, attempt_case
from archqa.safety.files import private_draft, storage_errors
from archqa.safety.server_urls import host_of, is_server_url, server_identity
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline
from archqa.tasks.pipelines import find

_FINAL_STATUSES = frozenset({"completed", "expired", "cancelled", "failed"})
"""Of a batch at the server."""

_MAX_LINE_CHARACTERS = 16 * 2**20
"""Characters of one reply in an output file."""

_MAX_ROUNDS_OF_A_REQUEST = 3
"""Rounds in which a request may fail before its stage counts as failed."""


class BatchRound(FrozenModel):
    """One input file. `batch_id` is the server's name for it, once it is uploaded."""

    number: int
    digests: tuple[str, ...]
    batch_id: str | None = None
    status: Literal["written", "submitted", "fetched"] = "written"


class BatchProgress(NamedTuple):
    """The number of cases that ended, of all cases, and of requests for the next file."""

    ended: int
    cases: int
    pending_requests: int


class BatchRun:
    """A run folder that batches fill."""

    def __init__(self, folder: RunFolder, settings: Settings) -> None:
        self.folder = folder
        self._settings = settings.replace(cache=False)
        self._batch_folder = folder.path / "batch"
        with storage_errors(self._batch_folder):
            self._batch_folder.mkdir(mode=0o700, exist_ok=True)
        self._pending: dict[str, Request] = {}

    @classmethod
    def create(cls, plan: Plan, out: Path | None) -> "BatchRun":
        """A new run; no request is written yet."""
        with new_folder(plan, out) as (folder, _):
            return cls(folder, plan.settings)

    @property
    def base_url(self) -> str | None:
        """The server that the run began with."""
        return self._settings.base_url

    def add_destination(self, destination: str) -> None:
        """Keep in `run.json` where the requests are sent."""
        self.folder.write_manifest(
            self.folder.manifest().with_destinations([destination])
        )

    @property
    def rounds(self) -> tuple[BatchRound, ...]:
        """The rounds so far."""
        path = self._batch_folder / "rounds.json"
        if not path.is_file():
            return ()
        rows = json.loads(path.read_text(encoding="utf-8"))
        return tuple(map(BatchRound.model_validate, rows))

    def replace(self, changed: BatchRound) -> None:
        """Save a round, new or changed."""
        rounds = {batch_round.number: batch_round for batch_round in self.rounds}
        rounds[changed.number] = changed
        rows = [batch_round.model_dump(mode="json") for batch_round in rounds.values()]
        self.folder.write_json("batch/rounds.json", rows)

    def input_path(self, batch_round: BatchRound) -> Path:
        """The input file of a round."""
        return self._batch_folder / f"round-{batch_round.number}.jsonl"

    def advance(self) -> BatchProgress:
        """Run every open case as far as the replies received allow.

        Raises `CallerError` for a run that writes to a record.
        """
        manifest = self.folder.manifest()
        pipeline = find(manifest.pipeline, manifest.task)
        if self._settings.for_pipeline(pipeline).writes_to_record:
            # Nobody is there to confirm a write, and `run.json` may be somebody else's.
            raise CallerError(
                "A batch writes to no record.\nUse archqa predict, or leave writes=apply away."
            )
        ended = self.folder.records()
        open_cases = [case for case in Run(self.folder).cases if case.id not in ended]
        self._pending = {}
        run_sync(self._advance(open_cases, pipeline))
        run = Run(self.folder)
        if run.complete:
            finished = run.manifest.model_copy(update={"status": RunStatus.FINISHED})
            self.folder.write_manifest(finished)
            run.write_submission()
        return BatchProgress(
            ended=len(run.records),
            cases=len(run.manifest.case_ids),
            pending_requests=len(self._pending),
        )

    def write_rounds(self) -> list[BatchRound]:
        """Write the pending requests that are in no open round.

        Each model has its own file, and a further one after every 50,000 requests.
        """
        in_open_rounds: set[str] = set()
        for batch_round in self.rounds:
            if batch_round.status != "fetched":
                in_open_rounds.update(batch_round.digests)
        keys_by_model: dict[str, list[str]] = defaultdict(list)
        for key, request in self._pending.items():
            if key not in in_open_rounds:
                keys_by_model[request.model].append(key)
        rounds = []
        for keys in keys_by_model.values():
            for start in range(0, len(keys), MAX_REQUESTS_PER_FILE):
                digests = tuple(keys[start : start + MAX_REQUESTS_PER_FILE])
                new_round = BatchRound(number=len(self.rounds) + 1, digests=digests)
                path = self.input_path(new_round)
                with storage_errors(path), private_draft(path) as file:
                    for key in digests:
                        line = batch_request_line(key, self._pending[key], Dialect())
                        file.write(f"{line}\n".encode("utf-8", "backslashreplace"))
                self.replace(new_round)
                rounds.append(new_round)
        return rounds

    def take(self, output: Path) -> int:
        """Store the replies of an output file; return their number.

        Raises `InputError` for a file that is not the output of a batch, or of a batch of another
        run.
        """
        our_keys: set[str] = set()
        for batch_round in self.rounds:
            our_keys.update(batch_round.digests)
        # The whole file is checked before a reply is stored, and is never in memory as a whole.
        answered: set[str] = set()
        foreign_count = 0
        for result in self._read_output(output):
            answered.add(result.key)
            foreign_count += result.key not in our_keys
        if foreign_count:
            mistake = f": {foreign_count} replies belong to another run."
            raise InputError(output, [mistake], "Name this run's own file.")
        reply_count = 0
        with self._replies() as replies:
            for result in self._read_output(output):
                if result.reply is not None:
                    replies.put(result.key, result.reply)
                    reply_count += 1
        for batch_round in self.rounds:
            if batch_round.status != "fetched" and not answered.isdisjoint(
                batch_round.digests
            ):
                self.replace(batch_round.model_copy(update={"status": "fetched"}))
        return reply_count

    def _read_output(self, output: Path) -> Iterator[BatchReply]:
        try:
            with output.open(encoding="utf-8", newline="\n") as file:
                yield from read_batch_output(
                    _limited_lines(file), self._settings.price_of
                )
        except (OSError, ValueError) as error:
            mistake = (
                str(error) if isinstance(error, ValueError) else ": cannot be read."
            )
            fix = "Give the output or error file of a batch that archqa wrote."
            raise InputError(output, [mistake], fix) from None

    def _replies(self) -> SqliteCache:
        return SqliteCache(self._batch_folder / "replies.db")

    async def _advance(self, cases: list[Item], pipeline: Pipeline) -> None:
        with self._replies() as replies:
            server_replies = ServerCache(
                replies, server_identity(self._settings.base_url)
            )
            model = BatchModel(server_replies, self._pending, self._failed_too_often())
            backends = Backends(self._settings, pipeline, model)
            job = Job(
                self.folder, pipeline, self._settings, backends, {}, lambda _: None
            )
            for case in cases:
                steps: list[Step] = []
                try:
                    record, _ = await attempt_case(case, job, steps.append)
                except ReplyPending:
                    continue
                # Written when the case ends, so that each step is in the trace once.
                for step in steps:
                    self.folder.add_step(case.id, step)
                usage = sum_usage(step.usage for step in steps)
                self.folder.add(record.model_copy(update={"usage": usage}))
            await backends.close()

    def _failed_too_often(self) -> frozenset[str]:
        """Return the requests that had no reply in the allowed number of rounds."""
        fetched_rounds: Counter[str] = Counter()
        for batch_round in self.rounds:
            if batch_round.status == "fetched":
                fetched_rounds.update(batch_round.digests)
        failed = set()
        for key, round_count in fetched_rounds.items():
            if round_count >= _MAX_ROUNDS_OF_A_REQUEST:
                failed.add(key)
        return frozenset(failed)


def _limited_lines(file: TextIO) -> Iterator[str]:
    """The lines of a file. Raises `ValueError` for one that is too long to be a reply."""
    lines = iter(partial(file.readline, _MAX_LINE_CHARACTERS + 1), "")
    for number, line in enumerate(lines, start=1):
        if len(line) > _MAX_LINE_CHARACTERS:
            raise ValueError(f":{number}: is too long for a reply.")
        yield line


def open_batch(path: Path, settings: Settings) -> BatchRun:
    """Open a batch run with the settings it began with; only the key comes from `settings`.

    Raises `InputError` for settings that this version does not take, `CallerError` for a record at
    another server than that of `settings`: whoever hands over a run would get the user's token and
    the searches.
    """
    folder = RunFolder.open(path)
    values: dict[str, Any] = dict(folder.manifest().settings)
    record = values.get("record")
    if isinstance(record, str) and is_server_url(record) and record != settings.record:
        raise CallerError(
            f"{path} reads the record at {host_of(record)}, which is not the one that is set up.\n"
            "If you trust it, name it again: set ARCHQA_RECORD to its address."
        )
    values["api_key"] = settings.api_key
    mistakes = []
    try:
        return BatchRun(folder, Settings(**values))
    except ValidationError as error:
        # Which settings are wrong and why, without their values.
        for mistake in error.errors(
            include_url=False, include_input=False, include_context=False
        ):
            name = ".".join(str(step) for step in mistake["loc"])
            mistakes.append(
                f": settings.{name} {mistake['msg'].removeprefix('Value error, ')}."
            )
    fix = "Begin the run anew, with the settings of this version."
    raise InputError(path / "run.json", mistakes, fix)


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
    run: BatchRun, settings: Settings, announce: Announce
) -> list[BatchRound]:
    """Submit every round that is written and not yet submitted. Raises `ModelError`.

    `announce` is called before with the server that gets record text.
    """
    destination = model_server(settings.base_url)
    run.add_destination(str(destination))
    announce([destination])
    submitted = []
    async with open_server(settings) as server:
        for batch_round in run.rounds:
            if batch_round.status != "written":
                continue
            file_id = await server.upload_batch_file(run.input_path(batch_round))
            batch = await server.create_batch(file_id)
            changes = {"status": "submitted", "batch_id": batch.id}
            submitted.append(batch_round.model_copy(update=changes))
            run.replace(submitted[-1])
    return submitted


async def statuses(run: BatchRun, settings: Settings) -> dict[int, str]:
    """Round number to the server's status of its batch. Raises `ModelError`."""
    status_by_round = {}
    async with open_server(settings) as server:
        for batch_round in run.rounds:
            if batch_round.status != "submitted":
                continue
            batch = await server.batch(batch_round.batch_id or "")
            status = batch.status
            if batch.request_counts is not None:
                counts = batch.request_counts
                status = f"{status}, {counts.completed} of {counts.total} done"
            status_by_round[batch_round.number] = status
    return status_by_round


async def fetch(run: BatchRun, settings: Settings) -> int:
    """Store the replies of every batch that is over; returns their number. Raises `ModelError`."""
    reply_count = 0
    async with open_server(settings) as server:
        for batch_round in run.rounds:
            if batch_round.status != "submitted":
                continue
            batch = await server.batch(batch_round.batch_id or "")
            if batch.status not in _FINAL_STATUSES:
                continue
            for file_id in (batch.output_file_id, batch.error_file_id):
                if file_id:
                    safe_id = re.sub(r"[^\w.-]", "_", file_id)
                    path = run.input_path(batch_round).with_suffix(
                        f".{safe_id}.out.jsonl"
                    )
                    await server.save_file(file_id, path)
                    reply_count += run.take(path)
            run.replace(batch_round.model_copy(update={"status": "fetched"}))
    return reply_count
