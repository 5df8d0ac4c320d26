"""Measures model calls: their processor time, the schedule, the cost of faults and kills, and the
memory of many cases.

    python -m tests.benchmarks.model_calls            (about 15 minutes on two idle cores)

The schedule alone, with its options: `python -m tests.benchmarks.scheduling --help`.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from tests.benchmarks import faults, scheduling
from tests.fakes.server import FakeServerProcess
from tests.llm.asking import make_request, server_model


def main() -> None:
    """Run one measurement after the other, so that none disturbs another."""
    milliseconds = 1000 * asyncio.run(cpu_of_a_call())
    print(
        f"client processor a call, one after the other: {milliseconds:.2f} ms",
        flush=True,
    )
    scheduling.measure_and_print()
    measurements = {"faults": _faults, "kills": _kills, "memory": _memory}
    with tempfile.TemporaryDirectory() as temporary:
        for name, measure in measurements.items():
            folder = Path(temporary, name)
            folder.mkdir()
            print(f"{name}: {measure(folder)}", flush=True)


async def cpu_of_a_call(calls: int = 200, rounds: int = 5) -> float:
    """Processor seconds of this process for one call to a server on loopback, in a process of its
    own.

    The least of several rounds: on a busy machine caches are cold, and the rest takes longer. The
    prompt has 3,000 characters, as a specialist's does.
    """
    request = make_request("word " * 600)
    measured = []
    with FakeServerProcess() as server:
        async with server_model(server) as model:
            await model.ask(request)  # Imports the SDK and opens the connection.
            for _ in range(rounds):
                start = time.process_time()
                for _ in range(calls):
                    await model.ask(request)
                measured.append((time.process_time() - start) / calls)
    return min(measured)


def _faults(folder: Path) -> str:
    run = faults.run_with_faults(folder, 200)
    return (
        f"three calls in ten fail; {run.answered} of {run.cases} cases answered in {run.calls} "
        f"calls, {run.unexplained} lost without a reason, {run.invalid} invalid answers"
    )


def _kills(folder: Path) -> str:
    run = faults.run_with_kills(folder, 20)
    comparison = "identical" if run.identical else "DIFFERENT"
    return (
        f"{run.kills} times kill -9, {faults.JOBS} calls in flight; {run.repeated} of {run.calls} "
        f"calls repeated; submission {comparison}"
    )


def _memory(folder: Path) -> str:
    peaks = []
    for case_count in (120, 10_000):
        mebibytes = faults.peak_memory(folder, case_count) / 2**20
        peaks.append(f"{mebibytes:.0f} MiB for {case_count:,} cases")
    return ", ".join(peaks)


if __name__ == "__main__":
    main()
