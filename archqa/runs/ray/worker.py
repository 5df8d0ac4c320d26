"""A worker on a Ray cluster: runs the pipeline on several cases at once. It writes no files."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from archqa.agents.registry import prompts_of
from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.core.version import __version__
from archqa.errors import ArchqaError, CallerError
from archqa.runs.backends import Backends, log_remark
from archqa.runs.folder import RunFolder
from archqa.runs.ray.shared_limits import worker_limits
from archqa.runs.record import CaseRecord, RunManifest
from archqa.runs.runner import Job, attempt_case
from archqa.settings import Settings
from archqa.tasks import pipelines
from archqa.tasks.pipeline import Pipeline


class WorkerConfig(NamedTuple):
    """What a worker needs to start.

    Secrets are passed between processes only, never to a log or table of Ray's.
    """

    task: str
    pipeline: str
    settings: dict[str, Any]
    secrets: dict[str, str]
    jobs: int
    prompts: dict[str, str]
    version: str

    @classmethod
    def of(cls, manifest: RunManifest, settings: Settings, jobs: int) -> "WorkerConfig":
        """The configuration for a run; `jobs` is the worker's share of requests in flight."""
        secrets: dict[str, str] = {}
        if settings.api_key is not None:
            secrets["api_key"] = settings.api_key.get_secret_value()
        if settings.cache.url is not None:
            secrets["cache_url"] = settings.cache.url.get_secret_value()
        return cls(
            task=manifest.task,
            pipeline=manifest.pipeline,
            settings=settings.without_secrets(),
            secrets=secrets,
            jobs=jobs,
            prompts=manifest.prompts,
            version=manifest.versions["archqa"],
        )


class WorkerResult(NamedTuple):
    """The outcome of a case: its record, its trace as JSON lines, and the failure if there was one.

    `record` is None where the failure ends the whole run.
    """

    record: CaseRecord | None
    steps: tuple[str, ...]
    failure: ArchqaError | None = None


class Worker:
    """The actor. It builds its backends once: one engine, one connection a server, one record."""

    def __init__(self, name: str, limits: Any) -> None:
        self._name = name
        self._limits = limits

    async def start(self, config: WorkerConfig) -> ArchqaError | None:
        """Build the backends. A failure is returned: Ray would wrap an exception."""
        values: dict[str, Any] = {**config.settings, **config.secrets}
        try:
            settings = Settings(**values).replace(jobs=config.jobs)
            pipeline = pipelines.find(config.pipeline, config.task)
            _check_same_version(config, pipeline)
            shared = worker_limits(self._limits, self._name, settings, config.jobs)
            # The driver has said where record text goes.
            backends = Backends(
                settings,
                pipeline,
                shared=shared,
                announce=lambda _: None,
                on_remark=log_remark,
            )
        except ArchqaError as failure:
            return failure
        folder = RunFolder(Path("on-the-driver"))  # `attempt_case` does not use it.
        self._job = Job(folder, pipeline, settings, backends, {}, lambda _: None)
        if self._job.backends.uses_models:
            # Import now: a delayed first request would exceed the requests of its minute.
            import archqa.llm.server  # noqa: F401
        return None

    async def shards(self) -> frozenset[int]:
        """The shards of the record that this machine has; none where the record is whole."""
        shards = self._job.backends.shards
        return shards.here if shards else frozenset()

    async def run_case(self, case: Item) -> WorkerResult:
        """Run the pipeline on one case."""
        started = time.monotonic()
        steps: list[Step] = []
        try:
            record, failure = await attempt_case(case, self._job, steps.append)
        except ArchqaError as fatal:
            return WorkerResult(None, _lines(steps), fatal)
        measured = {
            "usage": sum_usage(step.usage for step in steps),
            "seconds": time.monotonic() - started,
        }
        return WorkerResult(record.model_copy(update=measured), _lines(steps), failure)


def _check_same_version(config: WorkerConfig, pipeline: Pipeline) -> None:
    """Raise `CallerError` where this node has another archqa or other prompts than the driver."""
    prompts = {
        name: prompts_of(name, pipeline.agents).digest(name) for name in config.prompts
    }
    if __version__ != config.version or prompts != config.prompts:
        raise CallerError(
            f"A node of the cluster has another archqa ({__version__}, "
            f"the run has {config.version}), or other prompts.\nInstall the same on all nodes."
        )


def _lines(steps: list[Step]) -> tuple[str, ...]:
    return tuple(step.model_dump_json() for step in steps)
