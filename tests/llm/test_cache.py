"""The reply cache: what it stores, who can read it, and concurrent writers."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from archqa.core.usage import Usage
from archqa.errors import InputError, Refused
from archqa.llm.cache import ServerCache, SqliteCache
from archqa.llm.model import FinishReason, Reply, Request
from archqa.llm.scripted import ScriptedModel
from tests.fakes.replies import refusal_reply, truncated_reply
from tests.fakes.server import ROOT, FakeServer
from tests.llm.asking import API_KEY, cached_model, make_request, server_model

PAID = Reply(
    text="fine",
    usage=Usage(
        calls=1, prompt_tokens=100, completion_tokens=9, cost_usd=0.5, seconds=2.0
    ),
)


@pytest.fixture
def cache(tmp_path: Path) -> SqliteCache:
    return SqliteCache(tmp_path / "archqa" / "replies.db")


class SlowModel:
    """Replies once `ready` is set, and counts its requests."""

    def __init__(self) -> None:
        self.count = 0
        self.ready = asyncio.Event()

    async def ask(self, request: Request) -> Reply:
        self.count += 1
        await self.ready.wait()
        return PAID


async def test_a_repeated_request_is_answered_from_the_cache_for_free(
    cache: SqliteCache,
) -> None:
    script = ScriptedModel([PAID])
    model = cached_model(script, cache)
    assert (await model.ask(make_request())).usage == PAID.usage
    again = await model.ask(make_request())
    assert (again.text, again.usage) == ("fine", Usage(cached_calls=1))
    assert len(cache) == 1


async def test_a_reply_outlives_the_process(tmp_path: Path) -> None:
    file = tmp_path / "replies.db"
    cache = SqliteCache(file)
    await cached_model(ScriptedModel([PAID]), cache).ask(make_request())
    cache.close()
    reopened = cached_model(ScriptedModel([]), SqliteCache(file))
    assert (await reopened.ask(make_request())).text == "fine"


async def test_a_reply_is_on_disk_before_it_is_used(cache: SqliteCache) -> None:
    """A process that is killed while using a reply need not pay for it again."""
    await cached_model(ScriptedModel([PAID]), cache).ask(make_request())
    assert (
        ServerCache(SqliteCache(cache.path), "http://server/v1").get(make_request())
        == PAID
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "other"},
        {"temperature": 0.7},
        {"temperature": None},
        {"max_tokens": 5},
        {"repetition": 1},
        {"output_schema": None},
        {"messages": make_request("other words").messages},
    ],
)
async def test_a_different_request_gets_a_reply_of_its_own(
    changed: dict[str, Any], cache: SqliteCache
) -> None:
    model = cached_model(ScriptedModel(["one", "two"]), cache)
    await model.ask(make_request())
    assert (await model.ask(make_request(**changed))).text == "two"


@pytest.mark.parametrize(
    "line",
    [
        refusal_reply(),
        truncated_reply("half"),
        Reply(text="", finish=FinishReason.EMPTY),
        Refused("no"),
    ],
)
async def test_replies_that_may_be_better_next_time_are_not_cached(
    line: Reply | Exception, cache: SqliteCache
) -> None:
    model = cached_model(ScriptedModel([line, PAID]), cache)
    with suppress(Refused):
        await model.ask(make_request())
    assert len(cache) == 0
    assert (await model.ask(make_request())).text == "fine"


async def test_equal_concurrent_requests_are_sent_and_paid_once(
    cache: SqliteCache,
) -> None:
    slow = SlowModel()
    model = cached_model(slow, cache)
    asking = [asyncio.create_task(model.ask(make_request())) for _ in range(5)]
    await asyncio.sleep(0)
    slow.ready.set()
    replies = await asyncio.gather(*asking)
    assert slow.count == 1
    assert sum(reply.usage.calls for reply in replies) == 1
    assert sum(reply.usage.cached_calls for reply in replies) == 4


async def test_equal_concurrent_requests_share_a_failure(cache: SqliteCache) -> None:
    class Failing(SlowModel):
        async def ask(self, request: Request) -> Reply:
            await super().ask(request)
            raise Refused("no")

    failing = Failing()
    model = cached_model(failing, cache)
    asking = [asyncio.create_task(model.ask(make_request())) for _ in range(3)]
    await asyncio.sleep(0)
    failing.ready.set()
    assert all(
        isinstance(result, Refused)
        for result in await asyncio.gather(*asking, return_exceptions=True)
    )
    assert failing.count == 1


async def test_a_cancelled_request_does_not_cancel_equal_ones(
    cache: SqliteCache,
) -> None:
    """Another case waits for the same reply; it must get one, not a cancellation."""
    slow = SlowModel()
    model = cached_model(slow, cache)
    asking = [asyncio.create_task(model.ask(make_request())) for _ in range(3)]
    for _ in range(3):
        await asyncio.sleep(0)
    asking[0].cancel()
    slow.ready.set()
    cancelled, *replies = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [reply.text for reply in replies if isinstance(reply, Reply)] == [
        "fine",
        "fine",
    ]
    assert slow.count == 2


async def test_only_the_owner_can_read_the_cache(cache: SqliteCache) -> None:
    await cached_model(ScriptedModel([PAID]), cache).ask(make_request())
    assert cache.path.parent.stat().st_mode & 0o777 == 0o700
    files = list(cache.path.parent.iterdir())
    assert {file.name for file in files} >= {"replies.db", "replies.db-wal"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_readable_file_becomes_private_and_its_folder_stays_as_it_is(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "replies.db").touch(0o644)
    SqliteCache(tmp_path / "replies.db")
    assert (tmp_path / "replies.db").stat().st_mode & 0o777 == 0o600
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_file_that_is_no_database_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "replies.db").write_bytes(os.urandom(8192))
    with pytest.raises(InputError, match=r"replies\.db: the cache cannot be opened"):
        SqliteCache(tmp_path / "replies.db")


async def test_the_api_key_is_not_in_the_cache(cache: SqliteCache) -> None:
    with FakeServer() as server:
        async with server_model(server) as model:
            await cached_model(model, cache).ask(make_request())
    content = b"".join(file.read_bytes() for file in cache.path.parent.iterdir())
    assert b"not-relevant" in content or b"essential" in content
    assert API_KEY.encode() not in content


WRITER = """
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from archqa.llm.model import Message, Reply, Request
from archqa.llm.cache import SqliteCache
start = int(sys.argv[2])
for number in range(start, start + 100):
    cache = SqliteCache(Path(sys.argv[1])) if number % 20 == 0 else cache
    request = Request(model="fake", messages=(Message(role="user", content=str(number)),))
    cache.put(request.digest, Reply(text=f"reply to {number}"))
    assert cache.get(request.digest).text == f"reply to {number}"
"""


def test_several_processes_write_one_cache_and_nothing_is_lost(tmp_path: Path) -> None:
    """They share half of their requests, and reopen the file repeatedly."""
    path = tmp_path / "replies.db"
    commands = [
        [sys.executable, "-c", WRITER, str(path), str(start)] for start in (0, 40, 80)
    ]
    writers = [
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
        for command in commands
    ]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [
        (b"", 0)
    ] * 3
    assert len(SqliteCache(path)) == 180


def test_past_its_bound_the_oldest_replies_are_dropped(tmp_path: Path) -> None:
    with SqliteCache(tmp_path / "replies.db", max_bytes=1_000_000) as cache:
        for number in range(1500):
            cache.put(f"{number:064d}", Reply(text="word " * 400), "fake")
        assert cache.stats().size < 1_400_000
        assert cache.get(f"{1499:064d}") is not None
        assert cache.get(f"{0:064d}") is None


def test_a_cleared_cache_is_empty_and_small(tmp_path: Path) -> None:
    with SqliteCache(tmp_path / "replies.db") as cache:
        for number in range(300):
            cache.put(f"{number:064d}", Reply(text="word " * 400), "fake")
        assert cache.stats().by_model == {"fake": 300}
        assert cache.clear() == 300
        assert cache.stats().replies == 0
        assert cache.stats().size < 50_000


def test_a_reply_that_another_version_stored_with_more_fields_is_used(
    tmp_path: Path,
) -> None:
    with SqliteCache(tmp_path / "replies.db") as cache:
        cache.put("key", PAID)
    with sqlite3.connect(tmp_path / "replies.db") as connection:
        stored = json.loads(connection.execute("SELECT reply FROM reply").fetchone()[0])
        more = json.dumps({**stored, "tokens": []})
        connection.execute("UPDATE reply SET reply = ?", (more,))
    with SqliteCache(tmp_path / "replies.db") as cache:
        assert cache.get("key") == PAID
