"""What a run on Ray costs beside the ideal schedule, and what memory it takes. A command, not a test:

    python -m tests.benchmarks.cluster [--cases 2000] [--jobs 32] [--latency 0.5] [--sigma 0.5]
    python -m tests.benchmarks.cluster --embedded --cases 500 5000 --sentences 2 --workers 1 2

Two Ray nodes of one core each on this machine. With a model: a fake server in its own process, two calls a case; the
ideal is all latencies shared among the jobs. With the engine: memory of the driver and of the largest worker, looked at
twice a second. The load average is printed, since a machine that others use measures them as well.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.usage import Usage
from archqa.runs.predict import predict
from archqa.runs.record import CaseRecord
from tests.benchmarks.scheduling import print_line
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import FakeServerProcess

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
LEAN: dict[str, Any] = {
    "screen": "batched",
    "experts": False,
    "context": False,
    "model": "fake",
    "cache": False,
}


class Sample(NamedTuple):
    """Seconds since the start, cases ended, and MiB of the driver and of the largest worker."""

    at: float
    ended: int
    driver: float
    worker: float


class MemoryMonitor:
    """Samples memory twice a second during a run, and notes the first request to the server."""

    def __init__(self, count_requests: Callable[[], int] | None = None) -> None:
        self._count_requests = count_requests
        self._started = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.first_request: float | None = None
        self.first_case: float | None = None
        self.ended = 0
        self.samples: list[Sample] = []
        self.processor: dict[int, float] = {}
        self._driver_before = processor(os.getpid())

    def start(self, *_: object) -> None:
        self._started = time.monotonic()
        self._thread.start()

    def case(self, _: CaseRecord) -> None:
        self.ended += 1
        self.first_case = self.first_case or time.monotonic() - self._started

    def stop(self) -> float:
        """Seconds since the start."""
        self._stopped.set()
        return time.monotonic() - self._started

    def _sample(self) -> None:
        while not self._stopped.wait(0.5):
            now = time.monotonic() - self._started
            if (
                self.first_request is None
                and self._count_requests
                and self._count_requests()
            ):
                self.first_request = now
            processes = workers()
            for process in processes:
                self.processor[process] = processor(process)
            self.samples.append(
                Sample(
                    now,
                    self.ended,
                    resident(os.getpid()),
                    max(map(resident, processes), default=0.0),
                )
            )

    @property
    def worker_processor(self) -> float:
        """Processor seconds of all workers, their start included."""
        return sum(self.processor.values())

    @property
    def driver_processor(self) -> float:
        """Processor seconds of this process since the start."""
        return processor(os.getpid()) - self._driver_before

    def memory_after(self, ended: int) -> Sample:
        """The most of each in the looks from that many cases on."""
        later = [sample for sample in self.samples if sample.ended >= ended]
        return Sample(
            0.0,
            ended,
            max(sample.driver for sample in later),
            max(sample.worker for sample in later),
        )


def workers() -> list[int]:
    """Processes of Ray that hold a worker of ours."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::Worker"):
                processes.append(int(path.parent.name))
        except OSError:  # It ended meanwhile.
            continue
    return processes


def resident(process: int) -> float:
    """MiB of a process."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next(
        (int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")),
        0.0,
    )


def processor(process: int) -> float:
    """Seconds of processor a process has had; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def two_nodes() -> Any:
    """The address of a cluster of two nodes here."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    try:
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def with_a_model(options: Any, address: str, folder: Path) -> None:
    """One row: the run on Ray beside the ideal and beside this process alone."""
    print_line(
        "where   cases   calls   wall s   before 1st request   ideal s   (wall - before) / ideal   processor s   load"
    )
    for count in options.cases:
        cases = write_synthetic_cases(
            folder / f"{count}.jsonl", count, options.sentences
        )
        for runner in ("local", "ray"):
            with FakeServerProcess(
                latency=options.latency, sigma=options.sigma, seed=1
            ) as server:
                monitor = MemoryMonitor(lambda server=server: server.count)
                ray_settings = {
                    "runner": runner,
                    "ray_address": address,
                    "workers": options.workers[-1],
                }
                settings = {
                    **LEAN,
                    "jobs": options.jobs,
                    "base_url": server.base_url,
                    **ray_settings,
                }
                out = folder / f"{runner}-{count}"
                run = predict(
                    cases,
                    out=out,
                    on_start=monitor.start,
                    on_case=monitor.case,
                    **settings,
                )
                wall, stats = monitor.stop(), server.requests
            ideal, before = (
                stats.delay_seconds / options.jobs,
                monitor.first_request or 0.0,
            )
            assert run.complete
            print_line(
                f"{runner:6s} {count:6d} {stats.asked:7d} {wall:8.1f} {before:20.1f} {ideal:9.1f} "
                f"{(wall - before) / ideal:25.3f} {monitor.driver_processor + monitor.worker_processor:13.1f} "
                f"{os.getloadavg()[0]:6.1f}"
            )
        assert (
            len(
                {
                    (folder / f"{runner}-{count}/submission.json").read_bytes()
                    for runner in ("local", "ray")
                }
            )
            == 1
        )


def with_the_engine(options: Any, address: str, folder: Path) -> None:
    """One row a number of cases and workers: cases a second once the workers are up, and memory."""
    print_line(
        "workers   cases   wall s   cases/s   cases/processor s   driver MiB   largest worker MiB   load"
    )
    for number in options.workers:
        for count in options.cases:
            cases, monitor = (
                write_synthetic_cases(
                    folder / f"{count}.jsonl", count, options.sentences
                ),
                MemoryMonitor(),
            )
            ray_settings = {
                "runner": "ray",
                "ray_address": address,
                "workers": number,
                "pipeline": "embedded",
            }
            out = folder / f"engine-{number}-{count}"
            run = predict(
                cases,
                out=out,
                on_start=monitor.start,
                on_case=monitor.case,
                jobs=8,
                **ray_settings,
            )
            wall = monitor.stop()
            peak = monitor.memory_after(count // 10)
            pace = (count - 1) / (wall - (monitor.first_case or 0.0))
            assert run.complete
            assert run.usage == Usage()
            print_line(
                f"{number:7d} {count:7d} {wall:8.1f} {pace:9.2f} {count / monitor.worker_processor:19.2f} "
                f"{peak.driver:12.0f} {peak.worker:20.0f} {os.getloadavg()[0]:6.1f}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--cases", type=int, nargs="+", default=[2000])
    parser.add_argument("--sentences", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=32)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--latency", type=float, default=0.5)
    parser.add_argument("--sigma", type=float, default=0.5)
    options: Any = parser.parse_args()
    with ExitStack() as stack:
        address = stack.enter_context(two_nodes())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (with_the_engine if options.embedded else with_a_model)(
            options, address, folder
        )


if __name__ == "__main__":
    main()
