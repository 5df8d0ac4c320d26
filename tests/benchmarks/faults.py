"""Measures runs in which requests fail, the process is killed, or the cases are many."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from archqa.runs.predict import predict
from archqa.runs.run import Run
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import ROOT, FakeServer, FakeServerProcess

TRANSIENT = (
    "429", "429-retry-after", "500", "502", "503", "529", "connection-reset", "cut-off-body", "html-200", "html-502",
    "empty-choices", "null-content", "length", "content-filter", "refusal", "invalid-json", "trailing-prose", "fenced",
    "wrong-schema", "invented-ids", "missing-sentences", "duplicate-sentences",
)  # fmt: skip
"""Faults that may not recur when the request is sent again."""

KEY = "sk-canary-77"
JOBS = 8

_LEAN = ("screen=batched", "experts=off", "context=off", "cache=off")


class FaultyRun(NamedTuple):
    """A run whose requests fail at random.

    `unexplained` cases have neither an answer nor an error; `invalid` is the number of answers that
    break a rule.
    """

    cases: int
    calls: int
    answered: int
    unexplained: int
    invalid: int


class KilledRun(NamedTuple):
    """A run that was killed and resumed.

    `kills` counts the kills before its end, `calls` the calls of a run without kills, `repeated`
    the calls that were sent twice.
    """

    kills: int
    calls: int
    repeated: int
    identical: bool


def run_with_faults(
    folder: Path, count: int, sentences: int = 23, share: float = 0.3
) -> FaultyRun:
    """Run cases while a share of all calls fails, in every way of `TRANSIENT`."""
    cases = write_synthetic_cases(folder / "cases.jsonl", count, sentences)
    faults = [f"{fault}@{share / len(TRANSIENT)}" for fault in TRANSIENT]
    server_type = FakeServer if count < 100 else FakeServerProcess
    with server_type(*faults) as server:
        run = predict(
            cases,
            out=folder / "run",
            base_url=server.base_url,
            model="fake",
            first_wait=0.001,
            jobs=16,
        )
        calls = server.count
    answered = [record for record in run.records if record.answer is not None]
    unanswered = [record for record in run.records if record.answer is None]
    unexplained = [record for record in unanswered if not record.error]
    return FaultyRun(
        cases=len(run.manifest.case_ids),
        calls=calls,
        answered=len(answered),
        unexplained=len(unexplained),
        invalid=_count_invalid(run),
    )


def _count_invalid(run: Run) -> int:
    """Count the answers without a citation, with an unknown one, or with too many words."""
    sentence_ids = {case.id: set(case.sentence_ids) for case in run.notes}
    invalid = 0
    for record in run.records:
        answer = record.answer
        if answer is None:
            continue
        has_unknown_citation = not answer.cited <= sentence_ids[record.id]
        if not answer.cited or has_unknown_citation or answer.words > 75:
            invalid += 1
    return invalid


def run_with_kills(
    folder: Path, times: int, count: int = 60, seed: int = 11
) -> KilledRun:
    """Run cases without a kill, then again with kill -9 at random moments, resuming after each."""
    cases = write_synthetic_cases(folder / "cases.jsonl", count, sentences=12)
    generator = random.Random(seed)
    with FakeServerProcess(latency=0.08) as server:
        undisturbed = command(cases, folder / "undisturbed", server.base_url)
        subprocess.run(undisturbed, env=environment(folder / "home-1"), check=True)
        calls = server.count
        killed = command(cases, folder / "killed", server.base_url)
        home = environment(folder / "home-2")
        kills = 0
        for _ in range(times):
            kills += _run_and_kill(killed, home, server, generator)
        subprocess.run(killed, env=home, check=True)
        repeated = server.count - 2 * calls
    expected = (folder / "undisturbed" / "submission.json").read_bytes()
    submission = (folder / "killed" / "submission.json").read_bytes()
    return KilledRun(kills, calls, repeated, identical=submission == expected)


def _run_and_kill(
    arguments: list[str],
    home: dict[str, str],
    server: FakeServerProcess,
    generator: random.Random,
) -> bool:
    """Start the run and kill it after its first requests; return whether it was still running."""
    requests_before = server.count
    process = subprocess.Popen(arguments, env=home)
    while process.poll() is None and server.count <= requests_before:
        time.sleep(0.02)
    time.sleep(generator.random() * 0.4)
    is_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return is_running


def peak_memory(folder: Path, count: int) -> int:
    """Return the peak memory in bytes of a run with few, short calls a case."""
    cases = write_synthetic_cases(folder / f"{count}.jsonl", count, sentences=6)
    options = []
    for setting in _LEAN:
        options += ["--set", setting]
    with FakeServerProcess() as server:
        arguments = command(
            cases, folder / f"run-{count}", server.base_url, *options, jobs=32
        )
        home = environment(folder / "home")
        process = subprocess.Popen(arguments, env=home, stdout=subprocess.DEVNULL)
        peak = _watch_memory(process)
    assert process.returncode == 0, "the run failed"
    return peak


def _watch_memory(process: "subprocess.Popen[bytes]") -> int:
    """Return the peak memory of a process in bytes, read from /proc until it ends.

    `wait4` would include the memory of the process that started it.
    """
    status = Path(f"/proc/{process.pid}/status")
    peak = 0
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                kibibytes = int(line.split()[1])
                peak = max(peak, 1024 * kibibytes)
        time.sleep(0.1)
    return peak


def command(
    cases: Path, out: Path, base_url: str, *options: str, jobs: int = JOBS
) -> list[str]:
    """Return the command line of a run that can be resumed."""
    program = "from archqa.cli.main import run; run()"
    return [
        *(sys.executable, "-c", program, "predict", str(cases)),
        *("--out", str(out)),
        *("--base-url", base_url),
        *("--model", "fake"),
        *("--jobs", str(jobs)),
        *("--resume", "--yes", "--quiet"),
        *options,
    ]


def environment(home: Path) -> dict[str, str]:
    """Return environment variables with a cache of its own and a recognizable key."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(home),
        "OPENAI_API_KEY": KEY,
    }
