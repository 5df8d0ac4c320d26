"""What a run does when servers fail, machines are switched off, and cases are many: measured, judged by the tests."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
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
"""All that may pass when asked again."""

KEY = "sk-canary-77"
JOBS = 8

_LEAN = ("screen=batched", "experts=off", "context=off", "cache=off")


class Weathered(NamedTuple):
    """A run through faults. `unexplained` cases have neither an answer nor a reason; `invalid` a wrong answer."""

    cases: int
    calls: int
    answered: int
    unexplained: int
    invalid: int


class Killed(NamedTuple):
    """A run that was killed and resumed: how often while at work, calls of a whole run, calls made twice."""

    kills: int
    calls: int
    repeated: int
    identical: bool


def weather(folder: Path, count: int, sentences: int = 23, share: float = 0.3) -> Weathered:
    """Run cases while a share of all calls fails, in every way that may pass."""
    cases = write_synthetic_cases(folder / "cases.jsonl", count, sentences)
    faults = [f"{fault}@{share / len(TRANSIENT)}" for fault in TRANSIENT]
    kind = FakeServer if count < 100 else FakeServerProcess
    with kind(*faults) as server:
        run = predict(
            cases,
            out=folder / "run",
            base_url=server.base_url,
            model="fake",
            first_wait=0.001,
            jobs=16,
        )
        calls = server.count
    ended = run.records
    return Weathered(
        len(run.manifest.case_ids),
        calls,
        sum(each.answer is not None for each in ended),
        sum(each.answer is None and not each.error for each in ended),
        sum(_invalid(run)),
    )


def _invalid(run: Run) -> Iterable[bool]:
    """Whether each answer breaks a rule: no citation, one the note has not, or too many words."""
    known = {case.id: set(case.sentence_ids) for case in run.notes}
    for each in run.records:
        if each.answer is not None:
            yield (
                not each.answer.cited
                or not each.answer.cited <= known[each.id]
                or each.answer.words > 75
            )


def kill(folder: Path, times: int, count: int = 60, seed: int = 11) -> Killed:
    """Run cases whole, then again with a kill -9 at random moments and a resumption after each."""
    cases, dice = (
        write_synthetic_cases(folder / "cases.jsonl", count, sentences=12),
        random.Random(seed),
    )
    with FakeServerProcess(latency=0.08) as server:
        whole = command(cases, folder / "whole", server.base_url)
        subprocess.run(whole, env=environment(folder / "a"), check=True)
        calls = server.count
        cut, home = command(cases, folder / "cut", server.base_url), environment(folder / "b")
        kills = sum(_killed_at_work(cut, home, server, dice) for _ in range(times))
        subprocess.run(cut, env=home, check=True)
        repeated = server.count - 2 * calls
    one, two = ((folder / name / "submission.json").read_bytes() for name in ("whole", "cut"))
    return Killed(kills, calls, repeated, one == two)


def _killed_at_work(
    words: list[str], home: dict[str, str], server: FakeServerProcess, dice: random.Random
) -> bool:
    """Start the run, let it ask for a while, kill it; whether it was still at work."""
    before = server.count
    process = subprocess.Popen(words, env=home)
    while process.poll() is None and server.count <= before:
        time.sleep(0.02)
    time.sleep(dice.random() * 0.4)
    working = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return working


def peak_memory(folder: Path, count: int) -> int:
    """Bytes at most, of a run with few and short calls a case, so that it is the cases that count."""
    cases = write_synthetic_cases(folder / f"{count}.jsonl", count, sentences=6)
    lean = [word for setting in _LEAN for word in ("--set", setting)]
    with FakeServerProcess() as server:
        words = command(cases, folder / f"run-{count}", server.base_url, *lean, jobs=32)
        process = subprocess.Popen(
            words, env=environment(folder / "home"), stdout=subprocess.DEVNULL
        )
        peak = _watched(process)
    assert process.returncode == 0, "the run failed"
    return peak


def _watched(process: "subprocess.Popen[bytes]") -> int:
    """The most memory a process ever had, looked up until it ends.

    Not what `wait4` tells: that counts the memory of whoever started the process as well.
    """
    status, peak = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        peak = max([peak, *(1024 * int(line.split()[1]) for line in lines)])
        time.sleep(0.1)
    return peak


def command(cases: Path, out: Path, base_url: str, *more: str, jobs: int = JOBS) -> list[str]:
    """The main job as a process, ready to be resumed."""
    program = "from archqa.cli.main import run; run()"
    where = ["--out", str(out), "--base-url", base_url, "--model", "fake", "--jobs", str(jobs)]
    return [
        sys.executable,
        "-c",
        program,
        "predict",
        str(cases),
        *where,
        "--resume",
        "--yes",
        "--quiet",
        *more,
    ]


def environment(home: Path) -> dict[str, str]:
    """A cache and a key of its own."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(home),
        "OPENAI_API_KEY": KEY,
    }
