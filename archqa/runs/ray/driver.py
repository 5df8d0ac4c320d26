"""Runs cases on a Ray cluster: hands them out to workers, and alone writes the run's folder.

A worker that dies, alone or with its node, is replaced; its cases go to another worker. Replies
already received are in the cache and are not requested again. A case during which three workers
died is recorded as failed.
"""

import asyncio
import logging
import os
import socket
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from archqa.core.question import Item, RecordQuestion
from archqa.core.usage import sum_usage
from archqa.errors import (
    ArchqaError,
    CallerError,
    CaseFailed,
    MissingExtra,
    ServerUnavailable,
)
from archqa.runs.ray.shared_limits import LimitsActor
from archqa.runs.ray.worker import Worker, WorkerConfig, WorkerResult
from archqa.runs.runner import Job, OutageTracker, failed_record
from archqa.settings import Settings

_NAMESPACE = "archqa"
"""The namespace of our actors, apart from those of other users of the cluster."""

_CONNECT_SECONDS = 10


@contextmanager
def ray_cluster(settings: Settings) -> Iterator[Any]:
    """The `ray` module, connected; disconnects at the end if it was not connected before.

    Raises `MissingExtra` without Ray, `CallerError` if no cluster answers at the address.
    """
    # Set before Ray is imported: it reports usage statistics to its makers otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("Ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, settings.ray.address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    if address is not None and address.startswith("ray://"):
        raise CallerError(
            "--ray-address with ray:// is Ray's remote client, which cannot carry a run.\n"
            "Start archqa on a machine of the cluster: --ray-address auto, or HOST:6379."
        )
    options = {
        "namespace": _NAMESPACE,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    if address is None:
        # "local" starts a new cluster; `auto` would use one that runs on this machine.
        ray.init("local", include_dashboard=False, **options)
        return
    try:
        # Fail at once where nothing listens; Ray itself would retry for minutes.
        host, colon, port = address.rpartition(":")
        if colon and port.isdecimal():
            socket.create_connection(
                (host, int(port)), timeout=_CONNECT_SECONDS
            ).close()
        ray.init(address, **options)
    except (OSError, ValueError, RuntimeError):
        raise CallerError(
            f"No Ray cluster answers at {address}.\n"
            "Start one with `ray start --head`, or leave --ray-address out for one on this machine."
        ) from None


ShardIndex = int | None
"""The shard of the record that a case needs; None if any worker will do."""

MAX_WORKER_DEATHS = 3
"""Workers that may die while they run one case; then the case is recorded as failed."""


class CaseQueue:
    """Hands out cases one at a time. `over` is set when the last case has ended."""

    def __init__(
        self,
        cases: Iterable[Item],
        shard_of: Callable[[Item], ShardIndex] = lambda _: None,
    ) -> None:
        self._new_cases = iter(cases)
        self._shard_of = shard_of
        self._waiting: dict[ShardIndex, deque[Item]] = {}
        self.in_progress = 0
        self._changed = asyncio.Event()
        self.worker_deaths: Counter[str] = Counter()
        self.over = asyncio.Event()

    async def take(self, shards: frozenset[int]) -> Item:
        """Return the next case for a worker with these shards; wait for one if there is none."""
        while (case := self._next(shards)) is None:
            if not self.in_progress and not any(self._waiting.values()):
                self.over.set()
            self._changed.clear()
            await self._changed.wait()
        self.in_progress += 1
        return case

    def end(self, case: Item) -> None:
        """Count a case as ended."""
        self.in_progress -= 1
        self.worker_deaths.pop(case.id, None)
        self._changed.set()

    def requeue(self, case: Item, *, died: bool) -> None:
        """Put back a case that did not end; `died` if its worker died while running it."""
        self.in_progress -= 1
        if died:
            self.worker_deaths[case.id] += 1
        self._put(case)
        self._changed.set()

    def is_suspect(self, case: Item) -> bool:
        """Whether one more death is the last.

        Such a case runs alone, so that no other case can cause the death.
        """
        return self.worker_deaths[case.id] == MAX_WORKER_DEATHS - 1

    def _next(self, shards: frozenset[int]) -> Item | None:
        for shard, cases in self._waiting.items():
            if cases and (shard is None or shard in shards):
                return cases.popleft()
        for case in self._new_cases:
            shard = self._shard_of(case)
            if shard is None or shard in shards:
                return case
            self._put(case)
        return None

    def _put(self, case: Item) -> None:
        self._waiting.setdefault(self._shard_of(case), deque()).append(case)


CAPACITY_TIMEOUT = 300
"""Seconds that a run waits while the cluster has no capacity for any of its workers."""

MAX_FAILED_STARTS = 5
"""Workers in a row that may die before they start; then the nodes must be at fault."""

_MAX_CONCURRENT_LIMIT_CALLS = 10_000
"""Calls that the limits actor serves at once; some wait for another worker's reply."""

_SLOTS_OF_ENGINE_WORKER = 2
"""Cases at once on a worker without a model: the transfer of one leaves no core idle."""


class WorkerLost(Exception):
    """The worker died, or can no longer be reached."""


async def run_cases(cases: Iterable[Item], job: Job) -> None:
    """As `runner.run_cases`, on the cluster of the settings.

    Raises `MissingExtra` and `CallerError` as well.
    """
    with ray_cluster(job.settings) as ray:
        await _WorkerPool(ray, cases, job).run()


class _WorkerPool:
    """The workers of one run, and the cases they have not ended."""

    def __init__(self, ray: Any, cases: Iterable[Item], job: Job) -> None:
        self._ray = ray
        self._job = job
        self._manifest = job.folder.manifest()
        self._queue = CaseQueue(cases, _shard_function(job))
        self._outages = OutageTracker()
        self._limits = _start_limits(ray, job.settings)
        self._failed_starts = 0

    async def run(self) -> None:
        """Run until the last case has ended. Raises what no further case can survive."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._keep_worker(slots))
                    for slots in slots_per_worker(self._ray, self._job)
                ]
                tasks.append(group.create_task(self._watch_capacity()))
                await self._queue.over.wait()
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as failures:
            # The first exception of nested groups.
            failure: BaseException = failures
            while isinstance(failure, BaseExceptionGroup):
                failure = failure.exceptions[0]
            raise failure from None
        finally:
            self._ray.kill(self._limits)
        self._outages.raise_if_all_failed()

    async def _keep_worker(self, slots: int) -> None:
        """Keep one worker running as long as the run lasts, and replace it whenever it dies."""
        while True:
            try:
                worker = await self._start_worker(slots, cores=1)
                try:
                    async with asyncio.TaskGroup() as group:
                        for _ in range(slots):
                            group.create_task(self._run_queue(worker))
                finally:
                    worker.stop()
            except* WorkerLost:
                pass

    async def _run_queue(self, worker: "_WorkerHandle") -> None:
        while True:
            case = await self._queue.take(worker.shards)
            if self._queue.is_suspect(case):
                await self._run_alone(case)
            else:
                await self._run_case(case, worker)

    async def _run_case(self, case: Item, worker: "_WorkerHandle") -> None:
        try:
            result = await worker.run_case(case)
        except (WorkerLost, asyncio.CancelledError):
            # The slots of a dead worker are cancelled as soon as one of them notices the death.
            self._queue.requeue(case, died=True)
            raise
        self._record(case, result)

    async def _run_alone(self, case: Item) -> None:
        """Run a case on a worker of its own: if that dies, the case is the cause.

        The worker takes no core from the other workers.
        """
        try:
            worker = await self._start_worker(1, cores=0)
            try:
                result = await worker.run_case(case)
            except WorkerLost:
                failure = CaseFailed(
                    f"{MAX_WORKER_DEATHS} workers died while they worked on this case, "
                    "the last on it alone."
                )
                result = WorkerResult(failed_record(case.id, failure), (), failure)
            finally:
                worker.stop()
        except (WorkerLost, asyncio.CancelledError):
            self._queue.requeue(case, died=False)
            raise
        self._record(case, result)

    def _record(self, case: Item, result: WorkerResult) -> None:
        """Write a result into the run's folder. Raises what no further case can survive."""
        folder = self._job.folder
        earlier_usage = sum_usage(step.usage for step in folder.steps(case.id))
        folder.add_steps(case.id, result.steps)
        if result.record is None:
            assert result.failure is not None
            raise result.failure
        tries = self._job.tries.get(case.id, 0) + self._queue.worker_deaths[case.id] + 1
        usage = earlier_usage + result.record.usage
        record = result.record.model_copy(update={"usage": usage, "tries": tries})
        folder.add(record)
        self._queue.end(case)
        self._job.on_case(record)
        self._outages.after(result.failure)

    async def _start_worker(self, slots: int, cores: int) -> "_WorkerHandle":
        """A worker that is ready, as soon as the cluster has capacity.

        Raises what keeps it from starting.
        """
        worker = _WorkerHandle(self._ray, self._limits, slots, cores)
        config = WorkerConfig.of(self._manifest, self._job.settings, slots)
        try:
            failure = await worker.start(config)
        except BaseException as error:
            worker.stop()
            self._count_failed_start(error)
            raise
        if failure is not None:
            raise failure
        self._failed_starts = 0
        worker.shards = await worker.local_shards()
        return worker

    def _count_failed_start(self, error: BaseException) -> None:
        """Raise `ServerUnavailable` when too many workers in a row died before they started."""
        if isinstance(error, WorkerLost):
            self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise ServerUnavailable(
                f"{MAX_FAILED_STARTS} workers in a row died before they began.\n"
                "Is 'archqa[ray]' installed on every node, and is there memory enough? "
                "Ray's logs tell more."
            ) from None

    async def _watch_capacity(self) -> None:
        """Raise `ServerUnavailable` when no case has been in progress for too long."""
        idle_seconds = 0
        while idle_seconds < CAPACITY_TIMEOUT:
            await asyncio.sleep(1)
            idle_seconds = 0 if self._queue.in_progress else idle_seconds + 1
        raise ServerUnavailable(
            f"No case could be worked on for {CAPACITY_TIMEOUT} seconds: the cluster has no core "
            "free, its nodes do not start, or none has the shard of the record that is asked for.\n"
            "Look at `ray status`; --resume goes on where this run stopped."
        )


class _WorkerHandle:
    """A worker as the driver sees it; its death is raised as `WorkerLost`."""

    def __init__(self, ray: Any, limits: Any, slots: int, cores: int) -> None:
        self._ray = ray
        self._limits = limits
        self.shards: frozenset[int] = frozenset()
        self._name = uuid.uuid4().hex
        options = {
            "num_cpus": cores,
            "scheduling_strategy": "SPREAD",
            "max_concurrency": slots + 1,
        }
        self._actor = ray.remote(Worker).options(**options).remote(self._name, limits)

    async def start(self, config: WorkerConfig) -> ArchqaError | None:
        """See `Worker.start`."""
        failure: ArchqaError | None = await self._call(self._actor.start.remote(config))
        return failure

    async def local_shards(self) -> frozenset[int]:
        """See `Worker.shards`."""
        shards: frozenset[int] = await self._call(self._actor.shards.remote())
        return shards

    async def run_case(self, case: Item) -> WorkerResult:
        """See `Worker.run_case`."""
        result: WorkerResult = await self._call(self._actor.run_case.remote(case))
        return result

    def stop(self) -> None:
        """End its process, if it still has one, and release its requests in flight."""
        self._ray.kill(self._actor)
        self._limits.forget.remote(self._name)

    async def _call(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return await reference
        except (errors.RayActorError, errors.ObjectLostError):
            raise WorkerLost from None


def _shard_function(job: Job) -> Callable[[Item], int | None]:
    """Maps a case to the shard of the record it needs; to None where the record is whole."""
    shards = job.backends.shards

    def shard_of(case: Item) -> int | None:
        if shards is None or not isinstance(case, RecordQuestion):
            return None
        return shards.shard_number(case.patient_fhir_id)

    return shard_of


def slots_per_worker(ray: Any, job: Job) -> list[int]:
    """Return the cases at once on each worker.

    With models the run's `jobs` are divided among the workers. Unless `ray.workers` is set, there
    is one worker a node with models, and one a core without.
    """
    jobs = job.settings.limits.jobs
    workers = job.settings.ray.workers
    if not job.backends.uses_models:
        cores = int(ray.cluster_resources().get("CPU", 1))
        count = max(1, workers or min(cores, jobs))
        return [_SLOTS_OF_ENGINE_WORKER] * count
    nodes = 0
    for node in ray.nodes():
        nodes += node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    count = min(jobs, workers or max(1, nodes))
    slots, remainder = divmod(jobs, count)
    workers_with_more = [slots + 1] * remainder
    return workers_with_more + [slots] * (count - remainder)


def _start_limits(ray: Any, settings: Settings) -> Any:
    """Start the limits actor on the driver's node, whose death alone ends the run."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    driver_node = ray.get_runtime_context().get_node_id()
    options = {
        "num_cpus": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(driver_node, soft=False),
        "max_concurrency": _MAX_CONCURRENT_LIMIT_CALLS,
    }
    limits = settings.limits
    actor = ray.remote(LimitsActor).options(**options)
    return actor.remote(
        limits.requests_per_minute, limits.tokens_per_minute, limits.max_cost
    )
