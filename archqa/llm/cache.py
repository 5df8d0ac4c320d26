"""Replies that were paid for, in one SQLite file, keyed by server and canonical request.

A reply is committed before it is used. The file holds record text, so only its owner can read it
(mode 0600, in a folder of mode 0700). Values are JSON. Refusals, cut-off and empty replies are not
stored: asking again may do better.
"""

import asyncio
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from archqa.core.usage import Usage
from archqa.errors import InputError, StorageError
from archqa.llm.model import FinishReason, Model, Reply, Request
from archqa.safety.storage import storage_errors

GIBIBYTE = 2**30

LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_RETRY_PAUSE = 0.02
"""Seconds between two attempts to open a file that another process is opening."""

_SIZE_CHECK_INTERVAL = 100
"""Replies stored between two checks of the size."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS reply (
    digest TEXT PRIMARY KEY, model TEXT NOT NULL, stored_at REAL NOT NULL, reply TEXT NOT NULL
) WITHOUT ROWID
"""

_PUT = "INSERT OR REPLACE INTO reply (digest, model, stored_at, reply) VALUES (?, ?, ?, ?)"


class CacheStats(NamedTuple):
    """What a cache holds: replies, bytes on disk, and replies by model."""

    replies: int
    size: int
    by_model: dict[str, int]


class ReplyStore(Protocol):
    """Keeps replies by key.

    `is_remote` tells that every access is a network round trip, which must not block the event
    loop.
    """

    is_remote: bool

    def get(self, key: str) -> Reply | None:
        """The stored reply, or None."""
        ...

    def put(self, key: str, reply: Reply, model: str = "") -> None:
        """Store a reply of a model; it is durable when this returns."""
        ...


class ReplyCache(ReplyStore, Protocol):
    """A store of replies that can be inspected: `SqliteCache` is a file on this machine,
    `PostgresCache` a server for several machines.
    """

    def stats(self) -> CacheStats:
        """How many replies there are, of which models."""
        ...

    def clear(self) -> int:
        """Delete every reply; returns how many there were."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Close the file or the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class InFlightRequests(Protocol):
    """The requests that are being asked now by anyone who shares a cache."""

    async def acquire(self, key: str) -> bool:
        """True if the request is ours to ask; False, once it has ended, if it was being asked
        already.
        """
        ...

    def release(self, key: str) -> None:
        """The request has ended, whatever the outcome."""
        ...


class SqliteCache:
    """Replies in a file.

    Safe with several processes (WAL). Raises `InputError` if the file is not a cache, and
    `StorageError` where it cannot be read or written, or is locked for too long.

    Beyond `max_bytes` of content the oldest replies are deleted, a tenth at a time.
    """

    is_remote = False

    def __init__(self, path: Path, max_bytes: int = 4 * GIBIBYTE) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._stored_count = 0
        with storage_errors(path):
            _create_private_file(path)
        with self._opening():
            self._connection = sqlite3.connect(
                path,
                timeout=LOCK_TIMEOUT,
                isolation_level=None,
                check_same_thread=False,
            )
            self._prepare()

    def get(self, key: str) -> Reply | None:
        """The stored reply, or None, also for one that is damaged."""
        # As bytes: text that is not UTF-8 would be an error of the whole query.
        rows = self._run("SELECT CAST(reply AS BLOB) FROM reply WHERE digest = ?", key)
        return parse_reply(rows[0][0]) if rows else None

    def put(self, key: str, reply: Reply, model: str = "") -> None:
        """Store a reply; it is on disk when this returns."""
        row = (key, model or reply.served_by, time.time(), reply.model_dump_json())
        self._run(_PUT, *row)
        self._stored_count += 1
        if self._stored_count % _SIZE_CHECK_INTERVAL == 0:
            while self._size() > self._max_bytes:
                self._delete_oldest()

    def stats(self) -> CacheStats:
        """How many replies there are, of which models."""
        rows = self._run("SELECT model, count(*) FROM reply GROUP BY model ORDER BY model")
        return CacheStats(len(self), self._size(), dict(rows))

    def clear(self) -> int:
        """Delete every reply and free the space; returns how many there were."""
        count = len(self)
        self._run("DELETE FROM reply")
        self._run("VACUUM")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    def _size(self) -> int:
        """Bytes of pages in use."""
        used_pages = self._pragma("page_count") - self._pragma("freelist_count")
        return used_pages * self._pragma("page_size")

    def _pragma(self, name: str) -> int:
        return int(self._run(f"PRAGMA {name}")[0][0])

    def _delete_oldest(self) -> None:
        count = max(1, len(self) // 10)
        oldest = "SELECT digest FROM reply ORDER BY stored_at LIMIT ?"
        self._run(f"DELETE FROM reply WHERE digest IN ({oldest})", count)

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM reply")[0][0])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows. SQLite's messages quote no content."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(
                f"{self.path}: the cache cannot be read or written ({error}).\n{_advice(error)}"
            ) from None

    def _prepare(self) -> None:
        """Create the table. Two processes that do so at once may refuse each other immediately,
        whatever their timeout: both try again.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute(_SCHEMA)
                self._connection.execute(
                    "SELECT digest, model, stored_at, reply FROM reply LIMIT 1"
                )
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_PAUSE)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            mistake = f": the cache cannot be opened ({error})."
            raise InputError(self.path, [mistake], _advice(error)) from None


def parse_reply(text: str | bytes) -> Reply | None:
    """A reply as it is stored; None if it is damaged, so that it is asked for again."""
    try:
        return Reply.model_validate_json(text)
    except (ValueError, TypeError):
        return None


class ServerCache:
    """One server's replies in a cache. `server` is a `server_identity`.

    The key of a reply names server and request: a second server with a model of the same name is
    asked as well.
    """

    def __init__(self, cache: ReplyStore, server: str) -> None:
        self._cache = cache
        self._server = server
        self.is_remote = cache.is_remote

    def key(self, request: Request) -> str:
        """The sha256 that names this server and this request."""
        return hashlib.sha256(f"{self._server}\n{request.digest}".encode()).hexdigest()

    def get(self, request: Request) -> Reply | None:
        """The stored reply, or None."""
        return self._cache.get(self.key(request))

    def put(self, request: Request, reply: Reply) -> None:
        """Store a reply; it is durable when this returns."""
        self._cache.put(self.key(request), reply, request.model)


class CachedModel:
    """Answers from the cache where it can. Equal requests that run at the same time are asked once.

    With `in_flight` this holds across processes and machines.
    """

    def __init__(
        self,
        inner: Model,
        cache: ServerCache,
        in_flight: InFlightRequests | None = None,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._in_flight = in_flight
        self._pending: dict[str, asyncio.Future[Reply]] = {}

    async def ask(self, request: Request) -> Reply:
        """Answer one request; a stored reply costs nothing and counts as cached."""
        while True:
            reply = await self._get(request)
            if reply is not None:
                return _as_cached(reply)
            pending = self._pending.get(request.digest)
            if pending is None:
                return await self._ask_once(request)
            await asyncio.wait([pending])
            # If the task that was asking has been cancelled, the next one waiting asks.
            if not pending.cancelled():
                return _as_cached(pending.result())

    async def _ask_once(self, request: Request) -> Reply:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[request.digest] = future
        try:
            reply = await self._ask_exclusively(request)
            future.set_result(reply)
            return reply
        except asyncio.CancelledError:
            future.cancel()
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # Mark it as retrieved: asyncio warns of exceptions nobody awaited.
            raise
        finally:
            del self._pending[request.digest]

    async def _ask_exclusively(self, request: Request) -> Reply:
        """Ask, unless the same is being asked, or was just answered, in another process."""
        if self._in_flight is None:
            return await self._ask_and_store(request)
        key = self._cache.key(request)
        while True:
            acquired = await self._in_flight.acquire(key)
            try:
                reply = await self._get(request)
                if reply is not None:
                    return _as_cached(reply)
                if acquired:
                    return await self._ask_and_store(request)
            finally:
                if acquired:
                    self._in_flight.release(key)

    async def _ask_and_store(self, request: Request) -> Reply:
        reply = await self._inner.ask(request)
        if reply.finish is FinishReason.COMPLETE:
            await self._put(request, reply)
        return reply

    async def _get(self, request: Request) -> Reply | None:
        if self._cache.is_remote:
            return await asyncio.to_thread(self._cache.get, request)
        return self._cache.get(request)

    async def _put(self, request: Request, reply: Reply) -> None:
        if self._cache.is_remote:
            await asyncio.to_thread(self._cache.put, request, reply)
        else:
            self._cache.put(request, reply)


def _as_cached(reply: Reply) -> Reply:
    """The reply with the usage of one cached call: it is not paid for again."""
    return reply.model_copy(update={"usage": Usage(cached_calls=1)})


def _advice(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return "Another process holds it: wait until it ends, or run without it: --set cache=off"
    return "Move it away, or name another folder with --set cache_dir=DIR."


def _create_private_file(path: Path) -> None:
    """Create the file, or restrict an existing one.

    SQLite gives its side files the mode of the main file.

    An existing file is not opened: closing it would drop the locks of this process's other
    connections to it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        path.chmod(0o600)
