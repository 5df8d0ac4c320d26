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
from tests.benchmarks.scheduling import say
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


class Look(NamedTuple):
    """Seconds since the start, cases ended, and MiB of the driver and of the largest worker."""

    at: float
    ended: int
    driver: float
    worker: float


class Watch:
    """Looks at memory twice a second during a run, and at the server until it is asked for the first time."""

    def __init__(self, asked: Callable[[], int] | None = None) -> None:
        self._asked = asked
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.first_request: float | None = None
        self.first_case: float | None = None
        self.ended = 0
        self.looks: list[Look] = []
        self.processor: dict[int, float] = {}
        self._driver_before = processor(os.getpid())

    def start(self, *_: object) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def case(self, _: CaseRecord) -> None:
        self.ended += 1
        self.first_case = self.first_case or time.monotonic() - self._began

    def stop(self) -> float:
        """Seconds since the start."""
        self._over.set()
        return time.monotonic() - self._began

    def _look(self) -> None:
        while not self._over.wait(0.5):
            now = time.monotonic() - self._began
            if self.first_request is None and self._asked and self._asked():
                self.first_request = now
            found = workers()
            self.processor.update((each, processor(each)) for each in found)
            self.looks.append(
                Look(now, self.ended, resident(os.getpid()), max(map(resident, found), default=0.0))
            )

    @property
    def worker_processor(self) -> float:
        """Processor seconds of all workers, their start included."""
        return sum(self.processor.values())

    @property
    def driver_processor(self) -> float:
        """Processor seconds of this process since the start."""
        return processor(os.getpid()) - self._driver_before

    def memory_after(self, ended: int) -> Look:
        """The most of each in the looks from that many cases on."""
        late = [each for each in self.looks if each.ended >= ended]
        return Look(
            0.0, ended, max(each.driver for each in late), max(each.worker for each in late)
        )


def workers() -> list[int]:
    """Processes of Ray that hold a worker of ours."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::Worker"):
                found.append(int(path.parent.name))
        except OSError:  # It ended meanwhile.
            continue
    return found


def resident(process: int) -> float:
    """MiB of a process."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)


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


def with_a_model(asked: Any, address: str, folder: Path) -> None:
    """One row: the run on Ray beside the ideal and beside this process alone."""
    say(
        "where   cases   calls   wall s   before 1st request   ideal s   (wall - before) / ideal   processor s   load"
    )
    for count in asked.cases:
        cases = write_synthetic_cases(folder / f"{count}.jsonl", count, asked.sentences)
        for where in ("local", "ray"):
            with FakeServerProcess(latency=asked.latency, sigma=asked.sigma, seed=1) as server:
                watch = Watch(lambda server=server: server.count)
                there = {"runner": where, "ray_address": address, "workers": asked.workers[-1]}
                settings = {**LEAN, "jobs": asked.jobs, "base_url": server.base_url, **there}
                out = folder / f"{where}-{count}"
                run = predict(cases, out=out, on_start=watch.start, on_case=watch.case, **settings)
                wall, stats = watch.stop(), server.requests
            ideal, before = stats.delay_seconds / asked.jobs, watch.first_request or 0.0
            assert run.complete
            say(
                f"{where:6s} {count:6d} {stats.asked:7d} {wall:8.1f} {before:20.1f} {ideal:9.1f} "
                f"{(wall - before) / ideal:25.3f} {watch.driver_processor + watch.worker_processor:13.1f} "
                f"{os.getloadavg()[0]:6.1f}"
            )
        assert (
            len(
                {
                    (folder / f"{each}-{count}/submission.json").read_bytes()
                    for each in ("local", "ray")
                }
            )
            == 1
        )


def with_the_engine(asked: Any, address: str, folder: Path) -> None:
    """One row a number of cases and workers: cases a second once the workers are up, and memory."""
    say(
        "workers   cases   wall s   cases/s   cases/processor s   driver MiB   largest worker MiB   load"
    )
    for number in asked.workers:
        for count in asked.cases:
            cases, watch = (
                write_synthetic_cases(folder / f"{count}.jsonl", count, asked.sentences),
                Watch(),
            )
            there = {
                "runner": "ray",
                "ray_address": address,
                "workers": number,
                "pipeline": "embedded",
            }
            out = folder / f"engine-{number}-{count}"
            run = predict(cases, out=out, on_start=watch.start, on_case=watch.case, jobs=8, **there)
            wall = watch.stop()
            most = watch.memory_after(count // 10)
            pace = (count - 1) / (wall - (watch.first_case or 0.0))
            assert run.complete
            assert run.usage == Usage()
            say(
                f"{number:7d} {count:7d} {wall:8.1f} {pace:9.2f} {count / watch.worker_processor:19.2f} "
                f"{most.driver:12.0f} {most.worker:20.0f} {os.getloadavg()[0]:6.1f}"
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
    asked: Any = parser.parse_args()
    with ExitStack() as stack:
        address = stack.enter_context(two_nodes())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (with_the_engine if asked.embedded else with_a_model)(asked, address, folder)


if __name__ == "__main__":
    main()
