"""One worker: takes cases through the pipeline, as many at once as it was given places. It writes nothing down."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import archqa
from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.errors import ArchqaError, CallerError
from archqa.llm.prompts import default_prompts
from archqa.runs.backends import Backends
from archqa.runs.folder import RunFolder
from archqa.runs.ray.shared_limits import worker_limits
from archqa.runs.record import CaseRecord, RunManifest
from archqa.runs.runner import Job, attempt_case
from archqa.settings import Settings
from archqa.tasks import pipelines


class WorkerConfig(NamedTuple):
    """What a worker is told once. Secrets go from process to process and into no log or table of Ray's."""

    task: str
    pipeline: str
    settings: dict[str, Any]
    secrets: dict[str, str]
    jobs: int
    prompts: dict[str, str]
    version: str

    @classmethod
    def of(cls, manifest: RunManifest, settings: Settings, jobs: int) -> "WorkerConfig":
        """The order for a run, with a share of its places."""
        kept = {"api_key": settings.api_key, "cache_url": settings.cache.url}
        secrets = {name: each.get_secret_value() for name, each in kept.items() if each is not None}
        version = manifest.versions["archqa"]
        plain = settings.without_secrets()
        return cls(
            manifest.task, manifest.pipeline, plain, secrets, jobs, manifest.prompts, version
        )


class WorkerResult(NamedTuple):
    """How a case ended: its record, its trace as lines, and the failure that its end tells of.

    `record` is None where the failure ends the whole run.
    """

    record: CaseRecord | None
    steps: tuple[str, ...]
    failure: ArchqaError | None = None


class Worker:
    """The actor. The minds are made once: one engine, one connection, one way to the record."""

    def __init__(self, name: str, limits: Any) -> None:
        self._name = name
        self._limits = limits

    async def begin(self, order: WorkerConfig) -> ArchqaError | None:
        """Get ready; what stands against it is returned, since Ray would wrap what is raised."""
        try:
            self._job = self._prepared(order)
        except ArchqaError as failure:
            return failure
        if self._job.minds.uses_models:
            import aiohttp  # noqa: F401  # Now: a first request that waits for it arrives late, and a minute's too many.
        return None

    async def shards(self) -> frozenset[int]:
        """The shards of the record that this machine has; none where the record is whole."""
        shards = self._job.minds.shards
        return shards.here if shards else frozenset()

    async def work(self, case: Item) -> WorkerResult:
        """Take one case through the pipeline."""
        began, steps = time.monotonic(), list[Step]()
        try:
            record, failure = await attempt_case(case, self._job, steps.append)
        except ArchqaError as fatal:
            return WorkerResult(None, _lines(steps), fatal)
        measured = {
            "usage": sum_usage(step.usage for step in steps),
            "seconds": time.monotonic() - began,
        }
        return WorkerResult(record.model_copy(update=measured), _lines(steps), failure)

    async def end(self) -> None:
        """Close what was opened."""
        await self._job.minds.close()

    def _prepared(self, order: WorkerConfig) -> Job:
        settings = _settings(order)
        _check_same(order)
        pipeline = pipelines.find(order.pipeline, order.task)
        minds = Backends(
            settings, pipeline, shared=worker_limits(self._limits, self._name, settings, order.jobs)
        )
        # The run's folder is the driver's; `attempt` touches none.
        return Job(
            RunFolder(Path("the-driver-has-it")), pipeline, settings, minds, {}, lambda _: None
        )


def _settings(config: WorkerConfig) -> Settings:
    """The run's settings, with this worker's share of requests in flight."""
    values: dict[str, Any] = {**config.settings, **config.secrets}
    return Settings(**values).replace(jobs=config.jobs)


def _check_same(order: WorkerConfig) -> None:
    """A node with another archqa would answer otherwise. Raises `CallerError`."""
    here = {name: default_prompts().digest(name) for name in order.prompts}
    if archqa.__version__ != order.version or here != order.prompts:
        raise CallerError(
            f"A node of the cluster has another archqa ({archqa.__version__}, the run has {order.version}), or other "
            "prompts.\nInstall the same on all nodes."
        )


def _lines(steps: list[Step]) -> tuple[str, ...]:
    return tuple(step.model_dump_json() for step in steps)
