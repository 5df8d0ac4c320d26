"""Replies that were paid for, in one SQLite file, keyed by server and canonical request.

A reply is committed before it is used. The file holds record text, so only its owner can read it
(mode 0600, in a folder of mode 0700). Values are JSON. Refusals, cut-off and empty replies are not
stored: asking again may do better. A run goes on without a cache that fails.
"""

import asyncio
import hashlib
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from archqa.core.usage import Usage
from archqa.errors import InputError, ServerUnavailable, StorageError
from archqa.llm.model import FinishReason, Model, Reply, Request
from archqa.safety.files import (
    LocksUnsupported,
    acquire_lock,
    release_lock,
    storage_errors,
)

GIBIBYTE = 2**30

LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_RETRY_PAUSE = 0.02
"""Seconds between two attempts to open a file that another process is opening."""

_SIZE_CHECK_INTERVAL = 100
"""Replies stored between two checks of the size."""

MAX_WAIT = 600.0
"""Seconds to wait for another process's reply: one that is stopped must not stop others."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
"""Seconds between two looks at a request of another process."""

_STALE_AGE = 3600.0
"""Seconds after which the file of a killed process is cleared away."""

_FAILURES = (InputError, StorageError, ServerUnavailable)
"""What a cache raises when it fails, and not when it is set up wrongly."""

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


class ReplyCache(ABC):
    """Replies in a table: `SqliteCache` is a file on this machine, `PostgresCache` a server for
    several machines.

    Beyond `max_bytes` of content the oldest replies are deleted, a tenth at a time.
    """

    is_remote: bool
    table: ClassVar[str]
    reply_column: ClassVar[str] = "reply"

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._stored_count = 0

    @abstractmethod
    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement with `?` for each value, in a transaction; returns its rows.

        An error quotes no content.
        """

    @abstractmethod
    def size(self) -> int:
        """Bytes of content."""

    @abstractmethod
    def clear(self) -> int:
        """Delete every reply and free the space; returns how many there were."""

    @abstractmethod
    def close(self) -> None:
        """Close the file or the connections."""

    def get(self, key: str) -> Reply | None:
        """The stored reply, or None, also for one that is damaged: it is asked for again."""
        rows = self.run(
            f"SELECT {self.reply_column} FROM {self.table} WHERE digest = ?", key
        )
        try:
            return Reply.model_validate_json(rows[0][0]) if rows else None
        except (ValueError, TypeError):
            return None

    def put(self, key: str, reply: Reply, model: str = "") -> None:
        """Store a reply; it is durable when this returns."""
        values = (key, model or reply.served_by, time.time(), reply.model_dump_json())
        self.run(
            f"INSERT INTO {self.table} (digest, model, stored_at, reply) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at, "
            "reply = excluded.reply",
            *values,
        )
        self._stored_count += 1
        if self._stored_count % _SIZE_CHECK_INTERVAL == 0:
            while self.size() > self._max_bytes:
                count = max(1, len(self) // 10)
                oldest = f"SELECT digest FROM {self.table} ORDER BY stored_at LIMIT ?"
                self.run(f"DELETE FROM {self.table} WHERE digest IN ({oldest})", count)

    def stats(self) -> CacheStats:
        """How many replies there are, of which models."""
        rows = self.run(
            f"SELECT model, count(*) FROM {self.table} GROUP BY model ORDER BY model"
        )
        return CacheStats(len(self), self.size(), dict(rows))

    def __len__(self) -> int:
        return int(self.run(f"SELECT count(*) FROM {self.table}")[0][0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SqliteCache(ReplyCache):
    """Replies in a file.

    Safe with several processes (WAL). Raises `InputError` if the file is not a cache, and
    `StorageError` where it cannot be read or written, or is locked for too long.
    """

    is_remote = False
    table = "reply"
    reply_column = "CAST(reply AS BLOB)"
    """As bytes: text that is not UTF-8 would be an error of the whole query."""

    def __init__(self, path: Path, max_bytes: int = 4 * GIBIBYTE) -> None:
        super().__init__(max_bytes)
        self.path = path
        with storage_errors(path):
            _create_private_file(path)
        try:
            self._connection = sqlite3.connect(
                path,
                timeout=LOCK_TIMEOUT,
                isolation_level=None,
                check_same_thread=False,
            )
            self._prepare()
        except sqlite3.Error as error:
            mistake = f": the cache cannot be opened ({error})."
            raise InputError(path, [mistake], _advice(error)) from None

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement. SQLite's messages quote no content."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(
                f"{self.path}: the cache cannot be read or written ({error}).\n{_advice(error)}"
            ) from None

    def size(self) -> int:
        """Bytes of pages in use."""
        values = {}
        for name in ("page_count", "freelist_count", "page_size"):
            values[name] = int(self.run(f"PRAGMA {name}")[0][0])
        return (values["page_count"] - values["freelist_count"]) * values["page_size"]

    def clear(self) -> int:
        """Delete every reply and free the space; returns how many there were."""
        count = len(self)
        self.run("DELETE FROM reply")
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

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


class OptionalCache:
    """The replies of a cache, for as long as it works.

    `on_failure` is called once, with a sentence for the remarks of the run. Raises what is no
    failure of the cache: an invalid URL, a missing client.
    """

    def __init__(
        self, open_cache: Callable[[], ReplyCache], on_failure: Callable[[str], object]
    ) -> None:
        self._cache: ReplyCache | None = None
        self._on_failure = on_failure
        self.is_on = True
        self.is_remote = False
        try:
            self._cache = open_cache()
            self.is_remote = self._cache.is_remote
        except _FAILURES as error:
            self._switch_off(error)

    def get(self, key: str) -> Reply | None:
        """The stored reply; None also without a cache."""
        if self._cache is None or not self.is_on:
            return None
        try:
            return self._cache.get(key)
        except _FAILURES as error:
            self._switch_off(error)
            return None

    def put(self, key: str, reply: Reply, model: str = "") -> None:
        """Store a reply, if there is a cache."""
        if self._cache is None or not self.is_on:
            return
        try:
            self._cache.put(key, reply, model)
        except _FAILURES as error:
            self._switch_off(error)
        except ValueError:
            return  # A reply that is no text, such as half a character, is used but not stored.

    def close(self) -> None:
        """Close the cache."""
        if self._cache is not None:
            self._cache.close()

    def _switch_off(self, error: Exception) -> None:
        """Use the cache no more, and report it once: several threads may fail at the same time."""
        if not self.is_on:
            return
        self.is_on = False
        reason, *_ = str(error).splitlines()
        self._on_failure(
            f"The cache of replies is switched off, so that replies are paid for again: {reason}"
        )


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
            if self._cache.is_remote:
                await asyncio.to_thread(self._cache.put, request, reply)
            else:
                self._cache.put(request, reply)
        return reply

    async def _get(self, request: Request) -> Reply | None:
        if self._cache.is_remote:
            return await asyncio.to_thread(self._cache.get, request)
        return self._cache.get(request)


class InFlightFiles:
    """The requests that the processes of this machine are asking now, so that none is paid for twice.

    Each is a locked file in a folder next to the cache. The kernel unlocks the file of a process
    that dies, and anyone who waits for its reply asks in its place. Where files cannot be locked,
    every request is the caller's to ask.

    `is_needed` tells whether replies are still shared: without a cache, waiting helps nobody.
    """

    def __init__(
        self, folder: Path, is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        self._folder = folder
        self._is_needed = is_needed
        self._descriptors: dict[str, int] = {}
        self._works = True
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Files of processes that are gone.
            newest = time.time() - _STALE_AGE
            for path in folder.iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < newest:
                        descriptor = acquire_lock(path)
                        if descriptor is not None:
                            release_lock(path, descriptor)
        except (OSError, LocksUnsupported):
            self._works = False

    async def acquire(self, key: str) -> bool:
        """Return True as soon as nobody else asks this request; the caller may ask it then."""
        deadline = time.monotonic() + MAX_WAIT
        pause = _FIRST_PAUSE
        while not self._try_to_acquire(key) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def release(self, key: str) -> None:
        """The request has ended, whatever the outcome."""
        descriptor = self._descriptors.pop(key, None)
        if descriptor is not None:
            release_lock(self._folder / key, descriptor)

    def close(self) -> None:
        """Release what is left."""
        for key in tuple(self._descriptors):
            self.release(key)

    def _try_to_acquire(self, key: str) -> bool:
        """Whether the request is ours, or cannot be anybody's."""
        if not (self._works and self._is_needed()):
            return True
        try:
            descriptor = acquire_lock(self._folder / key)
        except (OSError, LocksUnsupported):
            self._works = False
            return True
        if descriptor is None:
            return False
        self._descriptors[key] = descriptor
        return True


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
