"""A cache of replies that fails is switched off; the run goes on, and nobody pays twice at once."""

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from archqa.asking.ask import ask
from archqa.errors import ServerUnavailable
from archqa.llm import cache as reply_cache
from archqa.llm.cache import CachedModel, OptionalCache, ServerCache
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import load_settings
from tests.asking.scripted import answering, scripted_answers
from tests.llm.asking import make_request
from tests.runs.conftest import default_reply
from tests.safety.storage_tools import (
    archqa,
    assert_one_storage_error,
    files_of_at_most,
)

OPTIONS = {"pipeline": "dmis", "screen": "batched", "experts": False}


def run_with(
    folder: Path, out: Path, reply: Callable[[Request], str] = default_reply
) -> Run:
    return predict(
        "mini", out=out, scripted=ScriptedModel(reply), cache_dir=folder, **OPTIONS
    )


def cache_remarks(run: Run) -> list[str]:
    manifest = json.loads((run.path / "run.json").read_text())
    return [remark for remark in manifest["remarks"] if "cache" in remark]


def working_cache(folder: Path) -> sqlite3.Connection:
    """A cache with replies to other requests."""
    with reply_cache.SqliteCache(folder / "replies.db") as cache:
        for number in range(50):
            cache.put(f"{number:064d}", reply_cache.Reply(text="word " * 400), "fake")
    return sqlite3.connect(folder / "replies.db", isolation_level=None)


def no_database(folder: Path) -> None:
    folder.mkdir()
    (folder / "replies.db").write_bytes(os.urandom(8192))


def cut_short(folder: Path) -> None:
    working_cache(folder).execute("PRAGMA journal_mode=DELETE").connection.close()
    content = (folder / "replies.db").read_bytes()
    (folder / "replies.db").write_bytes(
        content[:4096] + os.urandom(4096) + content[8192:20_000]
    )


def other_columns(folder: Path) -> None:
    folder.mkdir()
    connection = sqlite3.connect(folder / "replies.db")
    connection.execute("CREATE TABLE reply (digest TEXT PRIMARY KEY, words TEXT)")
    connection.close()


def more_columns(folder: Path) -> None:
    working_cache(folder).execute(
        "ALTER TABLE reply ADD COLUMN why TEXT NOT NULL DEFAULT ''"
    )


def full(folder: Path) -> None:
    refuse = "SELECT RAISE(FAIL, 'database or disk is full')"
    trigger = f"CREATE TRIGGER full BEFORE INSERT ON reply BEGIN {refuse}; END"
    working_cache(folder).execute(trigger)


def folder_in_its_place(folder: Path) -> None:
    (folder / "replies.db").mkdir(parents=True)


def file_in_the_place_of_its_folder(folder: Path) -> None:
    folder.write_text("a file")


BROKEN = [
    no_database,
    cut_short,
    other_columns,
    full,
    folder_in_its_place,
    file_in_the_place_of_its_folder,
]


@pytest.mark.parametrize("break_cache", BROKEN, ids=lambda broken: broken.__name__)
def test_a_run_goes_on_without_a_broken_cache(
    break_cache: Callable[[Path], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    break_cache(tmp_path / "cache")
    with caplog.at_level(logging.WARNING):
        run = run_with(tmp_path / "cache", tmp_path / "run")
    assert run.summary()["answered"] == 3
    (remark,) = cache_remarks(run)
    assert "switched off" in remark
    assert [record.getMessage() for record in caplog.records] == [remark]


@pytest.mark.parametrize(
    "break_cache",
    [broken for broken in BROKEN if broken is not full],
    ids=lambda it: it.__name__,
)
@pytest.mark.parametrize(
    "command", [["info"], ["clear", "--yes"]], ids=["info", "clear"]
)
def test_a_broken_cache_is_one_error_of_the_cache_commands(
    command: list[str], break_cache: Callable[[Path], None], tmp_path: Path
) -> None:
    break_cache(tmp_path / "archqa")
    result = archqa("cache", *command, XDG_CACHE_HOME=str(tmp_path))
    assert_one_storage_error(result, "cache cannot be", "cannot be read or written")
    assert len(result.stderr.splitlines()) == 2


def test_a_cache_with_further_columns_is_used(tmp_path: Path) -> None:
    more_columns(tmp_path / "cache")
    run = run_with(tmp_path / "cache", tmp_path / "run")
    assert (run.summary()["answered"], cache_remarks(run)) == (3, [])
    again = run_with(tmp_path / "cache", tmp_path / "again")
    assert again.summary()["calls"] == 0


def test_a_cache_that_another_process_keeps_locked_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_cache, "LOCK_TIMEOUT", 0.1)
    locking = working_cache(tmp_path / "cache")
    locking.execute("BEGIN IMMEDIATE")
    run = run_with(tmp_path / "cache", tmp_path / "run")
    assert run.summary()["answered"] == 3
    (remark,) = cache_remarks(run)
    assert "locked" in remark


def test_a_cache_that_fails_in_the_middle_of_a_run_loses_no_reply(
    tmp_path: Path,
) -> None:
    asked = []

    def reply(request: Request) -> str:
        asked.append(request.digest)
        if len(asked) == 4:
            for path in (tmp_path / "cache").glob("replies.db*"):
                path.write_bytes(b"somebody wrote over it " * 400)
        return default_reply(request)

    run = run_with(tmp_path / "cache", tmp_path / "run", reply)
    assert run.summary()["answered"] == 3
    assert len(asked) == len(set(asked)) == run.summary()["calls"]
    assert len(cache_remarks(run)) == 1


def test_a_single_damaged_reply_is_asked_for_again(tmp_path: Path) -> None:
    assert run_with(tmp_path / "cache", tmp_path / "run").summary()["answered"] == 3
    connection = sqlite3.connect(tmp_path / "cache" / "replies.db")
    rows = connection.execute(
        "SELECT digest FROM reply ORDER BY digest LIMIT 3"
    ).fetchall()
    damages = ["'{\"text\": 1'", "CAST(x'ff00fe' AS TEXT)", "''"]
    for (digest,), damage in zip(rows, damages, strict=True):
        connection.execute(
            f"UPDATE reply SET reply = {damage} WHERE digest = '{digest}'"
        )
    connection.commit()
    connection.close()
    again = run_with(tmp_path / "cache", tmp_path / "again")
    assert (again.summary()["answered"], again.summary()["calls"]) == (3, 3)
    assert cache_remarks(again) == []
    assert run_with(tmp_path / "cache", tmp_path / "last").summary()["calls"] == 0


def test_an_answer_to_one_question_says_that_the_cache_failed(tmp_path: Path) -> None:
    no_database(tmp_path / "cache")
    settings = load_settings(typed={"cache_dir": str(tmp_path / "cache")})
    model = scripted_answers(lambda _: answering(("He was given furosemide.", "1")))
    result = ask(
        "Why furosemide?", "He was given furosemide.", settings=settings, scripted=model
    )
    assert result.lines
    assert [remark for remark in result.remarks if "switched off" in remark]


def test_a_cache_without_room_for_its_file_is_switched_off(tmp_path: Path) -> None:
    (tmp_path / "cache").symlink_to("/dev/full")
    run = run_with(tmp_path / "cache", tmp_path / "run")
    assert (run.summary()["answered"], len(cache_remarks(run))) == (3, 1)


class CacheOnAServer:
    """A cache for several machines that fails after a few requests, in several threads at once."""

    is_remote = True

    def __init__(self) -> None:
        self.accesses = 0
        self.is_closed = False

    def get(self, key: str) -> reply_cache.Reply | None:
        self.accesses += 1
        if self.accesses > 4:
            time.sleep(0.05)
            raise ServerUnavailable(
                "The cache's server failed (OperationalError).\nRepair it."
            )
        return None

    def put(self, key: str, reply: reply_cache.Reply, model: str = "") -> None:
        self.get(key)

    def close(self) -> None:
        self.is_closed = True


def test_a_cache_on_a_server_that_fails_is_switched_off_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CacheOnAServer()
    monkeypatch.setattr("archqa.runs.reply_cache.open_cache", lambda _: cache)
    run = run_with(tmp_path / "cache", tmp_path / "run")
    assert run.summary()["answered"] == 3
    (remark,) = cache_remarks(run)
    assert remark.endswith("The cache's server failed (OperationalError).")
    assert cache.is_closed


async def test_a_reply_that_cannot_be_stored_is_used_all_the_same(
    tmp_path: Path,
) -> None:
    remarks: list[str] = []
    cache = OptionalCache(
        lambda: reply_cache.SqliteCache(tmp_path / "replies.db"), remarks.append
    )
    half_a_character = reply_cache.Reply(text="\ud800")
    model = CachedModel(
        ScriptedModel([half_a_character, "fine"]), ServerCache(cache, "server")
    )
    assert (await model.ask(make_request())).text == "\ud800"
    assert (await model.ask(make_request("other words"))).text == "fine"
    assert cache.get(model._cache.key(make_request("other words"))) is not None
    assert remarks == []


def test_a_disk_that_the_cache_has_filled_ends_no_run(tmp_path: Path) -> None:
    """Each reply fits into a trace; all together do not fit into the cache."""

    def reply(request: Request) -> str:
        return default_reply(request) + " " * 30_000

    with files_of_at_most(400_000):
        run = run_with(tmp_path / "cache", tmp_path / "run", reply)
    assert run.summary()["answered"] == 3
    assert len(cache_remarks(run)) == 1
