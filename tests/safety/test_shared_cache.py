"""Two runs on one cache do not ask the same request at once, and none waits for a dead one."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import archqa
from archqa.llm.cache import InFlightFiles, SqliteCache
from archqa.llm.model import Reply, Request
from archqa.runs.run import Run
from archqa.safety.files import acquire_lock, release_lock
from archqa.settings import load_settings
from tests.asking.scripted import answering, scripted_answers
from tests.fakes.server import FakeServer
from tests.llm.asking import cached_model, make_request

ROOT = Path(__file__).resolve().parents[2]
LEAN = ("--set", "screen=batched", "--set", "experts=off")


def start_run(server: FakeServer, out: Path, cache: Path) -> "subprocess.Popen[bytes]":
    program = "from archqa.cli.main import run; run()"
    address = (
        "--base-url",
        server.base_url,
        "--model",
        "fake",
        "--set",
        f"cache_dir={cache}",
    )
    command = [sys.executable, "-c", program, "predict", "mini", "--out", str(out)]
    options = [*address, *LEAN, "--jobs", "4", "--yes", "--quiet"]
    return subprocess.Popen(
        [*command, *options], cwd=ROOT, env={**os.environ, "no_proxy": "*"}
    )


def test_two_runs_at_once_send_no_request_twice(tmp_path: Path) -> None:
    with FakeServer(latency=0.3) as server:
        runs = [start_run(server, tmp_path / name, tmp_path / "cache") for name in "ab"]
        assert [run.wait(60) for run in runs] == [0, 0]
        stats = server.requests
    assert stats.asked > 0
    assert stats.repeated == 0
    summaries = [Run.open(tmp_path / name).summary() for name in "ab"]
    assert sum(summary["calls"] for summary in summaries) == stats.asked
    assert [summary["answered"] for summary in summaries] == [3, 3]


def test_a_run_takes_over_what_a_killed_one_was_asking(tmp_path: Path) -> None:
    with FakeServer(latency=1.0) as server:
        killed = start_run(server, tmp_path / "killed", tmp_path / "cache")
        while not server.count:
            time.sleep(0.02)
        other = start_run(server, tmp_path / "other", tmp_path / "cache")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert other.wait(60) == 0
    assert Run.open(tmp_path / "other").summary()["answered"] == 3
    assert not list((tmp_path / "cache" / "in_flight").iterdir())


def test_two_questions_at_once_in_one_process_are_asked_once(tmp_path: Path) -> None:
    digests: list[str] = []
    together = threading.Barrier(2)

    def reply(request: Request) -> str:
        digests.append(request.digest)
        time.sleep(0.05)
        return answering(("He was given furosemide.", "1"))

    def ask(_: int) -> str:
        settings = load_settings(typed={"cache_dir": str(tmp_path)})
        together.wait(5)
        note = "He was given furosemide. He slept."
        return archqa.ask(
            "Why?", note, settings=settings, scripted=scripted_answers(reply)
        ).text

    with ThreadPoolExecutor(2) as threads:
        texts = list(threads.map(ask, range(2)))
    assert texts[0] == texts[1]
    assert len(digests) == len(set(digests))


class CountingModel:
    """Replies after a while, and counts."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.count = 0
        self._seconds = seconds

    async def ask(self, request: Request) -> Reply:
        self.count += 1
        await asyncio.sleep(self._seconds)
        return Reply(text="fine")


def hold(folder: Path, key: str) -> Callable[[], None]:
    """Ask a request as another process would, and never end."""
    descriptor = acquire_lock(folder / key)
    assert descriptor is not None
    return lambda: release_lock(folder / key, descriptor)


async def test_a_process_that_is_stopped_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.llm.cache.MAX_WAIT", 0.1)
    files = InFlightFiles(tmp_path / "in_flight")
    with SqliteCache(tmp_path / "replies.db") as cache:
        model = CountingModel()
        cached = cached_model(model, cache, files)
        release = hold(tmp_path / "in_flight", cached._cache.key(make_request()))
        assert (await cached.ask(make_request())).text == "fine"
        release()
    assert model.count == 1


async def test_while_it_waits_for_another_process_a_run_does_other_work(
    tmp_path: Path,
) -> None:
    files = InFlightFiles(tmp_path / "in_flight")
    with SqliteCache(tmp_path / "replies.db") as cache:
        model = CountingModel()
        cached = cached_model(model, cache, files)
        release = hold(tmp_path / "in_flight", cached._cache.key(make_request()))
        waiting = asyncio.create_task(cached.ask(make_request()))
        assert (await cached.ask(make_request("other words"))).text == "fine"
        assert (model.count, waiting.done()) == (1, False)
        cache.put(cached._cache.key(make_request()), Reply(text="from there"))
        release()
        assert (await waiting).text == "from there"
    assert model.count == 1


@pytest.mark.parametrize("obstacle", ["no locks", "no folder", "full"])
async def test_where_files_cannot_be_locked_every_request_is_asked(
    obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if obstacle == "no locks":
        monkeypatch.setattr("archqa.safety.files.fcntl", None)
    if obstacle == "no folder":
        (tmp_path / "in_flight").write_text("a file")
    files = InFlightFiles(tmp_path / "in_flight")
    if obstacle == "full":
        (tmp_path / "in_flight").rmdir()
    with SqliteCache(tmp_path / "replies.db") as cache:
        model = CountingModel()
        cached = cached_model(model, cache, files)
        assert (await cached.ask(make_request())).text == "fine"
        assert (await cached.ask(make_request())).usage.cached_calls == 1
    assert model.count == 1


async def test_a_failed_request_leaves_no_lock(tmp_path: Path) -> None:
    files = InFlightFiles(tmp_path / "in_flight")
    with SqliteCache(tmp_path / "replies.db") as cache:
        cached = cached_model(CountingModel(seconds=60), cache, files)
        asking = asyncio.create_task(cached.ask(make_request()))
        await asyncio.sleep(0.01)
        assert list((tmp_path / "in_flight").iterdir())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert not list((tmp_path / "in_flight").iterdir())


def test_files_that_killed_processes_left_are_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "in_flight"
    folder.mkdir()
    for name in ("old", "held", "new"):
        (folder / name).touch()
    for name in ("old", "held"):
        os.utime(folder / name, (0, 0))
    release = hold(folder, "held")
    InFlightFiles(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["held", "new"]
    release()
