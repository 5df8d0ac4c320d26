"""Every figure of the model room, printed: the schedule, what faults cost, what kills repeat, what cases weigh.

    python -m tests.benchmarks.model_room            (about a quarter of an hour on two idle cores)

The schedule alone, with its options: `python -m tests.benchmarks.scheduling --help`.
"""

import tempfile
from pathlib import Path

from tests.benchmarks import hardship, scheduling
from tests.benchmarks.scheduling import say


def main() -> None:
    """Measure one after the other, so that none disturbs another."""
    scheduling.measure_and_say()
    with tempfile.TemporaryDirectory() as folder:
        for name, tell in (("faults", _faults), ("kills", _kills), ("memory", _memory)):
            place = Path(folder, name)
            place.mkdir()
            say(f"{name}: {tell(place)}")


def _faults(folder: Path) -> str:
    seen = hardship.weather(folder, 200)
    return (
        f"three calls in ten fail; {seen.answered} of {seen.cases} cases answered in {seen.calls} calls, "
        f"{seen.unexplained} lost without a reason, {seen.invalid} invalid answers"
    )


def _kills(folder: Path) -> str:
    seen = hardship.kill(folder, 20)
    same = "identical" if seen.identical else "DIFFERENT"
    return (
        f"{seen.kills} times kill -9, {hardship.JOBS} calls in flight; {seen.repeated} calls repeated beside "
        f"{seen.calls}; submission {same}"
    )


def _memory(folder: Path) -> str:
    few, many = (hardship.peak_memory(folder, count) / 2**20 for count in (120, 10_000))
    return f"{few:.0f} MiB for 120 cases, {many:.0f} MiB for 10,000"


if __name__ == "__main__":
    main()
