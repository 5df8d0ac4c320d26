"""Runs cases on a Ray cluster: deals them out to workers, and is the only one to write the run's folder.

A worker that dies, alone or with its node, is replaced; the cases it was at wait for another. What was answered lies in
the cache and is not asked again. A case that was on three workers as they died is recorded as failed.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from archqa.core.question import Item, RecordQuestion
from archqa.core.usage import sum_usage
from archqa.errors import ArchqaError, CaseFailed, ServerUnavailable
from archqa.runs.ray.case_queue import MAX_WORKER_DEATHS, CaseQueue
from archqa.runs.ray.cluster import ray_cluster
from archqa.runs.ray.shared_limits import LimitsActor
from archqa.runs.ray.worker import Worker, WorkerConfig, WorkerResult
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.runs.runner import Job, OutageTracker
from archqa.settings import Settings

CAPACITY_TIMEOUT = 300
"""Seconds that a run waits while the cluster has room for not one of its workers."""

MAX_FAILED_STARTS = 5
"""Workers in a row that may die before they begin; then something is wrong with the nodes, not with a worker."""

_AT_ONCE = 10_000
"""Calls that the limits answer at once; those that wait for another's reply among them."""


class WorkerLost(Exception):
    """The worker died, or can no longer be reached."""


async def run_cases(cases: Iterable[Item], job: Job) -> None:
    """As `runner.run_cases`, on the cluster of the settings. Raises `MissingExtra`, `CallerError` as well."""
    with ray_cluster(job.settings) as ray:
        await _Shift(ray, cases, job).work()


class _Shift:
    """One run of cases: the crew, who is at work, and what has ended."""

    def __init__(self, ray: Any, cases: Iterable[Item], job: Job) -> None:
        self._ray = ray
        self._job = job
        self._manifest = job.folder.manifest()
        self._waiting = CaseQueue(cases, _sharding(job))
        self._patience = OutageTracker()
        self._limits = _limits(ray, job.settings)
        self._stillborn = 0

    async def work(self) -> None:
        """Until the last case has ended. Raises what no other case can survive."""
        try:
            async with asyncio.TaskGroup() as group:
                crew = [
                    group.create_task(self._keep_manned(places))
                    for places in slots_per_worker(self._ray, self._job)
                ]
                crew.append(group.create_task(self._watch_for_room()))
                await self._waiting.over.wait()
                for each in crew:
                    each.cancel()
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
        finally:
            self._ray.kill(self._limits)
        self._patience.raise_if_all_failed()

    async def _keep_manned(self, places: int) -> None:
        """One worker at a time, as long as the run lasts; another whenever it dies."""
        while True:
            try:
                await self._man(places)
            except* WorkerLost:
                pass

    async def _man(self, places: int) -> None:
        worker = await self._hire(places, cores=1)
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(places):
                    lanes.create_task(self._work_off(worker))
        finally:
            worker.dismiss()

    async def _work_off(self, worker: "_Hired") -> None:
        while True:
            case = await self._waiting.take(worker.shards)
            if self._waiting.is_suspect(case):
                await self._work_alone(case)
            else:
                await self._work_on(case, worker)

    async def _work_on(self, case: Item, worker: "_Hired") -> None:
        try:
            done = await worker.work(case)
        except (
            WorkerLost,
            asyncio.CancelledError,
        ):  # Cancelled is who shared the worker with the first to notice.
            self._waiting.requeue(case, died=True)
            raise
        self._write_down(case, done)

    async def _work_alone(self, case: Item) -> None:
        """On a worker of its own, which takes no core from the others: what it dies of is the case."""
        try:
            worker = await self._hire(1, cores=0)
            try:
                done = await worker.work(case)
            except WorkerLost:
                done = _given_up(case)
            finally:
                worker.dismiss()
        except (WorkerLost, asyncio.CancelledError):
            self._waiting.requeue(case, died=False)
            raise
        self._write_down(case, done)

    def _write_down(self, case: Item, done: WorkerResult) -> None:
        """Into the run's folder; raises what no other case can survive."""
        folder = self._job.folder
        before = sum_usage(step.usage for step in folder.steps(case.id))
        folder.add_steps(case.id, done.steps)
        if done.record is None:
            assert done.failure is not None
            raise done.failure
        tries = self._job.tries.get(case.id, 0) + self._waiting.worker_deaths[case.id] + 1
        record = done.record.model_copy(
            update={"usage": before + done.record.usage, "tries": tries}
        )
        folder.add(record)
        self._waiting.end(case)
        self._job.on_case(record)
        self._patience.after(done.failure)

    async def _hire(self, places: int, cores: int) -> "_Hired":
        """A worker that is ready, as soon as the cluster has room. Raises what keeps it from working."""
        worker = _Hired(self._ray, self._limits, places, cores)
        try:
            failure = await worker.begin(
                WorkerConfig.of(self._manifest, self._job.settings, places)
            )
        except BaseException as lost:
            worker.dismiss()
            self._count_stillborn(lost)
            raise
        if failure is not None:
            raise failure
        self._stillborn = 0
        worker.shards = await worker.here()
        return worker

    def _count_stillborn(self, lost: BaseException) -> None:
        """Raise when one worker after the other dies before it could begin."""
        self._stillborn += isinstance(lost, WorkerLost)
        if self._stillborn >= MAX_FAILED_STARTS:
            raise ServerUnavailable(
                f"{MAX_FAILED_STARTS} workers in a row died before they began.\n"
                "Is 'archqa[ray]' installed on every node, and is there memory enough? Ray's logs tell more."
            ) from None

    async def _watch_for_room(self) -> None:
        empty = 0
        while empty < CAPACITY_TIMEOUT:
            await asyncio.sleep(1)
            empty = 0 if self._waiting.in_progress else empty + 1
        raise ServerUnavailable(
            f"No case could be worked on for {CAPACITY_TIMEOUT} seconds: the cluster has no core free, its nodes do not start, or "
            "none has the shard of the record that is asked for.\n"
            "Look at `ray status`; --resume goes on where this run stopped."
        )


class _Hired:
    """A worker as the driver sees it; whatever becomes of it is `WorkerLost`."""

    def __init__(self, ray: Any, limits: Any, places: int, cores: int) -> None:
        self._ray = ray
        self._limits = limits
        self.shards: frozenset[int] = frozenset()
        self._name = uuid.uuid4().hex
        ways = {"num_cpus": cores, "scheduling_strategy": "SPREAD", "max_concurrency": places + 1}
        self._actor = ray.remote(Worker).options(**ways).remote(self._name, limits)

    async def begin(self, order: WorkerConfig) -> ArchqaError | None:
        """See `Worker.begin`."""
        failure: ArchqaError | None = await self._asked(self._actor.begin.remote(order))
        return failure

    async def here(self) -> frozenset[int]:
        """See `Worker.shards`."""
        found: frozenset[int] = await self._asked(self._actor.shards.remote())
        return found

    async def work(self, case: Item) -> WorkerResult:
        """See `Worker.work`."""
        done: WorkerResult = await self._asked(self._actor.work.remote(case))
        return done

    def dismiss(self) -> None:
        """End its process, if it still has one; others may ask what it was asking."""
        self._ray.kill(self._actor)
        self._limits.forget.remote(self._name)

    async def _asked(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return await reference
        except (errors.RayActorError, errors.ObjectLostError):
            raise WorkerLost from None


def _sharding(job: Job) -> Callable[[Item], int | None]:
    """Which shard of the record a case needs; none where the record is whole."""
    shards = job.minds.shards
    if shards is None:
        return lambda _: None
    return lambda case: (
        shards.shard_number(case.patient_fhir_id) if isinstance(case, RecordQuestion) else None
    )


def slots_per_worker(ray: Any, job: Job) -> list[int]:
    """Places of each worker. With models the run's `jobs` are shared out; the engine works on one case a core.

    Unless the settings tell, there is one worker a node where models are asked, one a core where they are not.
    """
    jobs, wanted = job.settings.limits.jobs, job.settings.ray.workers
    if not job.minds.uses_models:
        cores = int(ray.cluster_resources().get("CPU", 1))
        return [_ENGINE_PLACES] * max(1, wanted or min(cores, jobs))
    nodes = sum(node["Alive"] and node["Resources"].get("CPU", 0) >= 1 for node in ray.nodes())
    workers = min(jobs, wanted or max(1, nodes))
    return [jobs // workers + (place < jobs % workers) for place in range(workers)]


_ENGINE_PLACES = 2
"""Cases at once on a worker of the engine: while one is being carried, the other keeps the core busy."""


def _limits(ray: Any, settings: Settings) -> Any:
    """The actor on this very node: it lives as long as the driver, whichever other nodes die."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    ways = {"num_cpus": 0, "scheduling_strategy": here, "max_concurrency": _AT_ONCE}
    paces = settings.limits.requests_per_minute, settings.limits.tokens_per_minute
    return ray.remote(LimitsActor).options(**ways).remote(*paces, settings.limits.max_cost)


def _given_up(case: Item) -> WorkerResult:
    error = f"CaseFailed: {MAX_WORKER_DEATHS} workers died while they worked on this case, the last on it alone."
    failure = CaseFailed(error)
    return WorkerResult(CaseRecord(id=case.id, status=CaseStatus.FAILED, error=error), (), failure)


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of nested failures."""
    found: BaseException = failures
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
