"""Compares the duration of a run with the ideal schedule, and measures the client's cost of a call.

    python -m tests.benchmarks.scheduling [--cases 120] [--sentences 23] [--jobs 16 32 64 128]

A fake server answers with log-normal latency (median 0.5 s, sigma 0.5, fixed seed). The ideal is
the critical path of the slowest case or all latencies shared among the jobs, whichever is longer.
The sequential loop is the paper's own listing (A.2: one blocking call after another); its time is
the sum of the same latencies. It is not run: that would take half an hour.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.step import Step
from archqa.runs.run import Run
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import ROOT, FakeServerProcess

PROGRAM = "from archqa.cli.main import run; run()"


class Measured(NamedTuple):
    """One run: seconds of wall clock and of the client's processor, and the seconds of its calls."""

    jobs: int
    wall: float
    cpu: float
    calls: int
    total: float
    critical: float
    peak: int

    @property
    def ideal(self) -> float:
        return max(self.critical, self.total / self.jobs)


def measure(cases: Path, jobs: int, folder: Path) -> Measured:
    """Run the main job once, in a process of its own, on a fresh server."""
    with FakeServerProcess(latency=0.5, sigma=0.5, seed=1) as server:
        arguments = [
            "predict",
            str(cases),
            "--out",
            str(folder),
            "--base-url",
            server.base_url,
            "--model",
            "fake",
        ]
        options = ["--jobs", str(jobs), "--quiet", "--yes", "--set", "cache=off"]
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments, *options],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        stats = server.requests
    assert status == 0, "the run failed"
    cpu = used.ru_utime + used.ru_stime
    return Measured(
        jobs,
        wall,
        cpu,
        stats.asked,
        stats.delay_seconds,
        critical_path(Run.open(folder)),
        used.ru_maxrss,
    )


def critical_path(run: Run) -> float:
    """Return the seconds of the slowest case's longest chain of calls.

    It is the context, then the longer of screening and specialists, then the decision.
    """
    return max(_chain(run.folder.steps(case_id)) for case_id in run.manifest.case_ids)


def _chain(steps: list[Step]) -> float:
    slowest: dict[str, float] = {}
    for step in steps:
        slowest[step.agent] = max(slowest.get(step.agent, 0.0), step.usage.seconds)
    specialists = slowest.get("recruiting", 0.0) + slowest.get("specialist", 0.0)
    return (
        slowest.get("context", 0.0)
        + max(slowest.get("general_expert", 0.0), specialists)
        + slowest.get("decision", 0.0)
    )


def start_cpu() -> float:
    """Processor seconds of a command that does nothing: what a run spends before its first call."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--version"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    used = os.wait4(process.pid, 0)[2]
    return used.ru_utime + used.ru_stime


def measure_and_print(
    cases: int = 120, sentences: int = 23, jobs: Sequence[int] = (16, 32, 64, 128)
) -> None:
    """Measure and print one row a number of jobs."""
    start = start_cpu()
    print_line(f"start-up: {start:.2f} s of processor, not counted per call")
    print_line(
        "jobs   wall s   ideal s   wall/ideal   calls   client ms/call   peak MiB   sequential s"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = write_synthetic_cases(Path(folder, "cases.jsonl"), cases, sentences)
        for count in jobs:
            run = measure(path, count, Path(folder, f"run-{count}"))
            milliseconds_per_call = 1000 * (run.cpu - start) / run.calls
            columns = (
                f"{count:4d}",
                f"{run.wall:8.1f}",
                f"{run.ideal:9.1f}",
                f"{run.wall / run.ideal:12.3f}",
                f"{run.calls:7d}",
                f"{milliseconds_per_call:16.2f}",
                f"{run.peak / 1024:10.0f}",
                f"{run.total:14.0f}",
            )
            print_line(" ".join(columns))


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--sentences", type=int, default=23)
    parser.add_argument("--jobs", type=int, nargs="+", default=[16, 32, 64, 128])
    options: Any = parser.parse_args()
    measure_and_print(options.cases, options.sentences, options.jobs)


def print_line(line: str) -> None:
    """Print a line of the result at once."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
