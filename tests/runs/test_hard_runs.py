"""Runs through what servers and machines do: faults at a third of the calls, kills at any moment, many cases."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archqa.runs.predict import predict
from archqa.runs.run import Run
from tests.fakes.cases import write
from tests.fakes.server import FakeServer, FakeServerProcess

ROOT = Path(__file__).resolve().parents[2]

TRANSIENT = (
    "429", "429-retry-after", "500", "502", "503", "529", "connection-reset", "cut-off-body", "html-200", "html-502",
    "empty-choices", "null-content", "length", "content-filter", "refusal", "invalid-json", "trailing-prose", "fenced",
    "wrong-schema", "invented-ids", "missing-sentences", "duplicate-sentences",
)  # fmt: skip


def command(cases: Path, out: Path, base_url: str, *more: str) -> list[str]:
    program = "from archqa.cli.main import run; run()"
    options = [
        "--out",
        str(out),
        "--base-url",
        base_url,
        "--model",
        "fake",
        "--jobs",
        "8",
        "--resume",
        "--yes",
        "--quiet",
    ]
    return [sys.executable, "-c", program, "predict", str(cases), *options, *more]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(home), "OPENAI_API_KEY": "sk-canary-77"}


def test_three_calls_in_ten_fail_and_nearly_every_case_is_answered(tmp_path: Path) -> None:
    share = 0.3 / len(TRANSIENT)
    cases = write(tmp_path / "cases.jsonl", count=20, sentences=10)
    with FakeServer(*(f"{fault}@{share}" for fault in TRANSIENT)) as server:
        run = predict(cases, out=tmp_path / "run", base_url=server.base_url, model="fake", first_wait=0.001, jobs=16)
    check_hard_run(run, least=0.97)


@pytest.mark.long
def test_two_hundred_cases_with_three_calls_in_ten_failing(tmp_path: Path) -> None:
    share = 0.3 / len(TRANSIENT)
    cases = write(tmp_path / "cases.jsonl", count=200)
    with FakeServerProcess(*(f"{fault}@{share}" for fault in TRANSIENT)) as server:
        run = predict(cases, out=tmp_path / "run", base_url=server.base_url, model="fake", first_wait=0.001, jobs=16)
        assert server.count > 5000
    check_hard_run(run, least=0.97)


@pytest.mark.long
def test_killed_twenty_times_a_run_ends_with_the_same_predictions_and_repeats_only_what_was_in_flight(
    tmp_path: Path,
) -> None:
    cases, dice = write(tmp_path / "cases.jsonl", count=60, sentences=12), random.Random(11)
    with FakeServerProcess(latency=0.08) as server:
        subprocess.run(command(cases, tmp_path / "whole", server.base_url), env=environment(tmp_path / "a"), check=True)
        whole_calls = server.count
        cut = command(cases, tmp_path / "cut", server.base_url)
        kills = sum(killed_at_work(cut, environment(tmp_path / "b"), server, dice) for _ in range(20))
        subprocess.run(cut, env=environment(tmp_path / "b"), check=True)
        repeated = server.count - 2 * whole_calls
    assert (tmp_path / "cut/submission.json").read_bytes() == (tmp_path / "whole/submission.json").read_bytes()
    assert kills == 20
    assert repeated <= 8 * kills
    check_no_secret(tmp_path)


def killed_at_work(words: list[str], home: dict[str, str], server: FakeServerProcess, dice: random.Random) -> bool:
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


@pytest.mark.long
def test_ten_thousand_cases_take_little_more_memory_than_a_hundred_and_twenty(tmp_path: Path) -> None:
    few, many = (peak_memory(tmp_path, count) for count in (120, 10_000))
    assert many - few <= 50 * 2**20, f"{few / 2**20:.0f} MiB for 120 cases, {many / 2**20:.0f} MiB for 10,000"


def peak_memory(folder: Path, count: int) -> int:
    """Bytes at most, of a run with few and short calls a case, so that it is the cases that count."""
    cases = write(folder / f"{count}.jsonl", count, sentences=6)
    lean = [
        "--set",
        "screen=batched",
        "--set",
        "experts=off",
        "--set",
        "context=off",
        "--set",
        "cache=off",
        "--jobs",
        "32",
    ]
    with FakeServerProcess() as server:
        words = command(cases, folder / f"run-{count}", server.base_url, *lean)
        process = subprocess.Popen(words, env=environment(folder / "home"))
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0
    assert isinstance(used, resource.struct_rusage)
    return used.ru_maxrss * 1024


def check_hard_run(run: Run, least: float) -> None:
    summary = run.summary()
    assert summary["answered"] >= least * summary["cases"], [record.error for record in run.records if record.error]
    sentences = {case.id: set(case.sentence_ids) for case in run.cases}
    for record in run.records:
        assert record.answer is not None or record.error
        if record.answer is not None:
            assert record.answer.cited
            assert record.answer.cited <= sentences[record.id]
            assert record.answer.words <= 75


def check_no_secret(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"sk-canary-77" not in path.read_bytes(), path


def test_a_run_through_a_server_writes_its_key_nowhere(tmp_path: Path) -> None:
    cases = write(tmp_path / "cases.jsonl", count=2, sentences=4)
    with FakeServer() as server:
        done = subprocess.run(
            command(cases, tmp_path / "run", server.base_url, "--verbose"),
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
            check=True,
        )
    check_no_secret(tmp_path)
    assert "sk-canary-77" not in done.stdout + done.stderr
    sentence = json.loads(cases.read_text().splitlines()[0])["sentences"][0]["text"]
    assert sentence not in done.stderr
