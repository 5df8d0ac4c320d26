"""Replies already paid for: one SQLite file, keyed by the canonical request, committed before a reply is used.

Readable by its owner only (the file is 0600 in a folder of 0700): it holds record text. Values are JSON.
Refusals, cut-off and empty replies are not kept, so that asking again can do better.
"""

import asyncio
import os
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from archqa.core.usage import Usage
from archqa.errors import InputError
from archqa.llm.model import FinishReason, Model, Reply, Request

GIBIBYTE = 2**30

_LOOK_EVERY = 100
"""Replies kept between two looks at the size."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS reply (
    digest TEXT PRIMARY KEY, model TEXT NOT NULL, stored_at REAL NOT NULL, reply TEXT NOT NULL
) WITHOUT ROWID
"""


class CacheStats(NamedTuple):
    """What a cache holds: replies, bytes on disk, and replies by model."""

    replies: int
    size: int
    by_model: dict[str, int]


class ReplyCache(Protocol):
    """Where replies are kept: `SqliteCache` is a file on this machine, `postgres.SharedCache` a server for many.

    `far` tells that every look takes a trip through the network, so that nobody must wait for it standing.
    """

    far: bool

    def get(self, digest: str) -> Reply | None:
        """The kept reply to the request of this digest."""
        ...

    def put(self, request: Request, reply: Reply) -> None:
        """Keep a reply; it is kept for good when this returns."""
        ...

    def contents(self) -> CacheStats:
        """How much there is, and of which models."""
        ...

    def clear(self) -> int:
        """Drop every reply; returns how many there were."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Let go of the file or the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class InFlightRequests(Protocol):
    """Who is asking what just now, among all who share a cache."""

    async def take(self, digest: str) -> bool:
        """Whether the request is ours to ask; False, once it is over, if somebody else was asking it."""
        ...

    def give(self, digest: str) -> None:
        """The request is over, however it ended."""
        ...


class SqliteCache:
    """The file of replies. Safe with several processes (WAL). Raises `InputError` if the file is something else.

    Past `most` bytes of content the oldest replies are dropped, a tenth at a time.
    """

    far = False

    def __init__(self, path: Path, most: int = 4 * GIBIBYTE) -> None:
        self.path = path
        self._most = most
        self._kept = 0
        _private_file(path)
        self._connection = sqlite3.connect(
            path, timeout=30, isolation_level=None, check_same_thread=False
        )
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_SCHEMA)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            fix = "Move it away, or name another folder with --set cache_dir=DIR."
            raise InputError(path, [f": the cache cannot be opened ({error})."], fix) from None

    def get(self, digest: str) -> Reply | None:
        """The kept reply to the request of this digest."""
        row = self._connection.execute(
            "SELECT reply FROM reply WHERE digest = ?", (digest,)
        ).fetchone()
        return Reply.model_validate_json(row[0]) if row else None

    def put(self, request: Request, reply: Reply) -> None:
        """Keep a reply; it is on disk when this returns."""
        self.keep(request.digest, reply, request.model)

    def keep(self, digest: str, reply: Reply, model: str = "") -> None:
        """Keep a reply to the request of this digest."""
        row = (digest, model or reply.served_by, time.time(), reply.model_dump_json())
        self._connection.execute("INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?)", row)
        self._kept += 1
        while self._kept % _LOOK_EVERY == 0 and self._size() > self._most:
            self._drop_oldest()

    def contents(self) -> CacheStats:
        """How much there is, and of which models."""
        rows = self._connection.execute(
            "SELECT model, count(*) FROM reply GROUP BY model ORDER BY model"
        ).fetchall()
        return CacheStats(len(self), self._size(), dict(rows))

    def clear(self) -> int:
        """Drop every reply and give the space back; returns how many there were."""
        dropped = len(self)
        self._connection.execute("DELETE FROM reply")
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return dropped

    def _size(self) -> int:
        """Bytes of pages in use."""
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _drop_oldest(self) -> None:
        self._connection.execute(
            "DELETE FROM reply WHERE digest IN (SELECT digest FROM reply ORDER BY stored_at LIMIT ?)",
            (max(1, len(self) // 10),),
        )

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM reply").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class CachedModel:
    """Answers from the cache where it can; equal requests that are under way at once are asked once.

    With `claims`, also when they are under way on different machines.
    """

    def __init__(
        self, inner: Model, cache: ReplyCache, claims: InFlightRequests | None = None
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._claims = claims
        self._under_way: dict[str, asyncio.Future[Reply]] = {}

    async def ask(self, request: Request) -> Reply:
        """Answer one request; a reply that was paid before costs nothing and counts as cached."""
        while True:
            kept = await self._find(request)
            if kept is not None:
                return _free(kept)
            asked = self._under_way.get(request.digest)
            if asked is None:
                return await self._ask_once(request)
            await asyncio.wait([asked])
            if (
                not asked.cancelled()
            ):  # Else whoever asked was called off, and the next in line asks.
                return _free(asked.result())

    async def _ask_once(self, request: Request) -> Reply:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._under_way[request.digest] = future
        try:
            reply = await (
                self._pay(request) if self._claims is None else self._claim(request, self._claims)
            )
            future.set_result(reply)
            return reply
        except asyncio.CancelledError:
            future.cancel()
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # Retrieved, so that nobody is warned of an exception nobody else awaited.
            raise
        finally:
            del self._under_way[request.digest]

    async def _claim(self, request: Request, claims: InFlightRequests) -> Reply:
        """Ask if nobody else, on any machine, is asking the same or has just been answered."""
        while True:
            ours = await claims.take(request.digest)
            try:
                kept = await self._find(request)
                if kept is not None:
                    return _free(kept)
                if ours:
                    return await self._pay(request)
            finally:
                if ours:
                    claims.give(request.digest)

    async def _pay(self, request: Request) -> Reply:
        reply = await self._inner.ask(request)
        if reply.finish is FinishReason.COMPLETE:
            await self._keep(request, reply)
        return reply

    async def _find(self, request: Request) -> Reply | None:
        digest = request.digest
        return (
            await asyncio.to_thread(self._cache.get, digest)
            if self._cache.far
            else self._cache.get(digest)
        )

    async def _keep(self, request: Request, reply: Reply) -> None:
        if self._cache.far:
            await asyncio.to_thread(self._cache.put, request, reply)
        else:
            self._cache.put(request, reply)


def _free(reply: Reply) -> Reply:
    """The same reply, as it counts when it is not paid again."""
    usage = Usage(cached_calls=1, prompt_tokens=0, completion_tokens=0, cost_usd=0.0)
    return reply.model_copy(update={"usage": usage})


def _private_file(path: Path) -> None:
    """Make the file, or tighten the one that is there. SQLite gives its side files the mode of the main one.

    One that is there is not opened: closing it would drop the locks of a connection this process has already.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        path.chmod(0o600)
