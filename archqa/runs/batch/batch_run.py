"""A run by the Batch API, stage by stage: what can be asked goes into a file, what came back takes the cases further.

    batch/rounds.json        every file written: how many requests, its batch at the server, how it stands
    batch/round-<n>.jsonl    the requests of a round;  batch/replies.db  every reply that came back

Each advance takes every open case from its start through the replies that have come, up to the first that has not. A
repair or compress turn is just another request of the next file. Nothing here waits; all of it works from files alone.
"""

import asyncio
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Literal, NamedTuple

from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.llm.batch import (
    MAX_REQUESTS_PER_FILE,
    BatchModel,
    ReplyPending,
    batch_request_line,
    read_batch_output,
)
from archqa.llm.cache import ServerCache, SqliteCache
from archqa.llm.dialect import Dialect
from archqa.llm.model import Request
from archqa.llm.server_identity import server_identity
from archqa.runs.backends import Backends
from archqa.runs.folder import RunFolder
from archqa.runs.open_run import new_folder
from archqa.runs.plan import Plan
from archqa.runs.record import RunStatus
from archqa.runs.run import Run
from archqa.runs.runner import Job, attempt_case
from archqa.settings import Settings
from archqa.tasks.pipelines import find

_TRIES = 3
"""Rounds in which a request may fail before its stage counts as failed."""


class BatchRound(FrozenModel):
    """One input file. `batch_id` is the server's name for it, once it was uploaded."""

    number: int
    digests: tuple[str, ...]
    batch_id: str | None = None
    output_ids: tuple[str, ...] = ()
    status: Literal["written", "submitted", "fetched"] = "written"


class BatchProgress(NamedTuple):
    """How a batched run stands: cases ended, cases in all, requests that wait for the next file."""

    ended: int
    cases: int
    pending_requests: int


class BatchRun:
    """A run folder that is filled by batches."""

    def __init__(self, folder: RunFolder, settings: Settings) -> None:
        self.folder = folder
        self._settings = settings.replace(cache=False)
        self._place = folder.path / "batch"
        self._place.mkdir(mode=0o700, exist_ok=True)
        self._waiting: dict[str, Request] = {}

    @classmethod
    def create(cls, plan: Plan, out: Path | None) -> "BatchRun":
        """A new run; nothing is asked yet."""
        return cls(new_folder(plan, out), plan.settings)

    @property
    def rounds(self) -> tuple[BatchRound, ...]:
        """The rounds so far."""
        path = self._place / "rounds.json"
        if not path.is_file():
            return ()
        return tuple(
            BatchRound.model_validate(each) for each in json.loads(path.read_text(encoding="utf-8"))
        )

    def replace(self, changed: BatchRound) -> None:
        """Write a round down, new or changed."""
        kept = {each.number: each for each in self.rounds} | {changed.number: changed}
        self.folder.write_json(
            "batch/rounds.json", [each.model_dump(mode="json") for each in kept.values()]
        )

    def input_path(self, round_: BatchRound) -> Path:
        """The input file of a round."""
        return self._place / f"round-{round_.number}.jsonl"

    def advance(self) -> BatchProgress:
        """Take every open case as far as the replies that have come allow."""
        run = Run(self.folder)
        ended = self.folder.records()
        self._waiting = {}
        asyncio.run(self._advance([case for case in run.cases if case.id not in ended]))
        run = Run(self.folder)
        if run.complete:
            self.folder.write_manifest(
                run.manifest.model_copy(update={"status": RunStatus.FINISHED})
            )
            run.write_submission()
        return BatchProgress(len(run.records), len(run.manifest.case_ids), len(self._waiting))

    def write_rounds(self) -> list[BatchRound]:
        """Files of the requests that wait and are not under way already; one for each model, and for each 50,000."""
        under_way = {
            digest for each in self.rounds if each.status != "fetched" for digest in each.digests
        }
        by_model: dict[str, list[str]] = defaultdict(list)
        for key, request in self._waiting.items():
            if key not in under_way:
                by_model[request.model].append(key)
        return [
            self._write_round(keys[start : start + MAX_REQUESTS_PER_FILE])
            for keys in by_model.values()
            for start in range(0, len(keys), MAX_REQUESTS_PER_FILE)
        ]

    def _write_round(self, keys: list[str]) -> BatchRound:
        written = BatchRound(number=len(self.rounds) + 1, digests=tuple(keys))
        dialect = Dialect()
        lines = "".join(f"{batch_request_line(key, self._waiting[key], dialect)}\n" for key in keys)
        path = self.input_path(written)
        path.touch(mode=0o600)
        path.write_text(lines, encoding="utf-8")
        self.replace(written)
        return written

    def take(self, output: Path) -> int:
        """Keep the replies of an output file; returns how many. Raises `InputError` for a file that is none."""
        known = {digest for each in self.rounds for digest in each.digests}
        with self._replies() as replies:
            try:
                found = list(
                    read_batch_output(
                        output.read_text(encoding="utf-8").splitlines(), self._settings.price_of
                    )
                )
            except (OSError, ValueError) as error:
                fix = "Give the output or error file of a batch that archqa wrote."
                raise InputError(
                    output,
                    [str(error) if isinstance(error, ValueError) else ": cannot be read."],
                    fix,
                ) from None
            strangers = [each for each in found if each.key not in known]
            if strangers:
                raise InputError(
                    output,
                    [f": {len(strangers)} replies belong to another run."],
                    "Name this run's own file.",
                )
            for each in found:
                if each.reply is not None:
                    replies.put(each.key, each.reply)
        self._close_rounds({each.key for each in found})
        return sum(each.reply is not None for each in found)

    def _close_rounds(self, answered: set[str]) -> None:
        for each in self.rounds:
            if each.status != "fetched" and answered & set(each.digests):
                self.replace(each.model_copy(update={"status": "fetched"}))

    def _replies(self) -> SqliteCache:
        return SqliteCache(self._place / "replies.db")

    async def _advance(self, cases: list[Item]) -> None:
        manifest = self.folder.manifest()
        with self._replies() as replies:
            server_replies = ServerCache(replies, server_identity(self._settings.base_url))
            model = BatchModel(server_replies, self._waiting, self._hopeless())
            minds = Backends(self._settings, find(manifest.pipeline, manifest.task), model)
            job = Job(
                self.folder,
                find(manifest.pipeline, manifest.task),
                self._settings,
                minds,
                {},
                lambda _: None,
            )
            for case in cases:
                await self._case(case, job)
            await minds.close()

    async def _case(self, case: Item, job: Job) -> None:
        """The steps are written only when the case ends, so that a trace tells each once."""
        steps: list[Step] = []
        try:
            record, _ = await attempt_case(case, job, steps.append)
        except ReplyPending:
            return
        for step in steps:
            self.folder.add_step(case.id, step)
        self.folder.add(
            record.model_copy(update={"usage": sum_usage(step.usage for step in steps)})
        )

    def _hopeless(self) -> frozenset[str]:
        """Requests that came back without a reply too often."""
        asked = Counter(
            digest for each in self.rounds if each.status == "fetched" for digest in each.digests
        )
        return frozenset(digest for digest, times in asked.items() if times >= _TRIES)


def open_batch(path: Path, settings: Settings) -> BatchRun:
    """A batched run that was begun before, with the settings it was begun with; `settings` gives the key alone."""
    folder = RunFolder.open(path)
    begun = Settings(**folder.manifest().settings, api_key=settings.api_key)
    return BatchRun(folder, begun)
