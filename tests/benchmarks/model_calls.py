"""Measures model calls: the schedule, the cost of faults and kills, and the memory of many cases.

    python -m tests.benchmarks.model_calls            (about 15 minutes on two idle cores)

The schedule alone, with its options: `python -m tests.benchmarks.scheduling --help`.
"""

import tempfile
from pathlib import Path

from tests.benchmarks import faults, scheduling


def main() -> None:
    """Run one measurement after the other, so that none disturbs another."""
    scheduling.measure_and_print()
    measurements = {"faults": _faults, "kills": _kills, "memory": _memory}
    with tempfile.TemporaryDirectory() as temporary:
        for name, measure in measurements.items():
            folder = Path(temporary, name)
            folder.mkdir()
            print(f"{name}: {measure(folder)}", flush=True)


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
