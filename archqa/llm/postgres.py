"""Replies already paid for, on a PostgreSQL server: the cache that several machines share.

The same rows as in the file of `cache`; a reply is committed before it is used. Record text goes to that server: its
disk, its backups and the way to it (`sslmode=verify-full` in the URL) must be as private as the record.
"""

import logging
import time
from typing import TYPE_CHECKING, Any, Self, cast

from archqa.errors import CallerError, MissingExtra, ServerUnavailable
from archqa.llm.cache import GIBIBYTE, CacheStats
from archqa.llm.model import Reply, Request

if TYPE_CHECKING:
    import psycopg_pool

_LOOK_EVERY = 100
"""Replies kept between two looks at the size."""

_CONNECTIONS = 4
"""Open at once at most, from one process."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS archqa_reply (
    digest text PRIMARY KEY, model text NOT NULL, stored_at double precision NOT NULL, reply text NOT NULL
)
"""
_ALONE = "SELECT pg_advisory_xact_lock(4713227)"
"""Two that make the same table at once would fail; any number will do that nobody else locks."""

_PUT = """
INSERT INTO archqa_reply VALUES (%s, %s, %s, %s)
ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at, reply = excluded.reply
"""
_OLDEST = "DELETE FROM archqa_reply WHERE digest IN (SELECT digest FROM archqa_reply ORDER BY stored_at LIMIT %s)"


class PostgresCache:
    """The table of replies at a URL. Safe with several threads, processes and machines.

    Past `most` bytes of replies the oldest are dropped, a tenth at a time. Raises `CallerError` for a URL that is none,
    `ServerUnavailable` if the server cannot be reached.
    """

    far = True

    def __init__(self, url: str, most: int = 4 * GIBIBYTE) -> None:
        self._most = most
        self._kept = 0
        self._pool = _pool(url)
        with self._pool.connection() as connection:
            connection.execute(_ALONE)
            connection.execute(_SCHEMA)

    def get(self, digest: str) -> Reply | None:
        """The kept reply to the request of this digest."""
        rows = self._run("SELECT reply FROM archqa_reply WHERE digest = %s", digest)
        return Reply.model_validate_json(rows[0][0]) if rows else None

    def put(self, request: Request, reply: Reply) -> None:
        """Keep a reply; it is committed when this returns."""
        self._run(_PUT, request.digest, request.model, time.time(), reply.model_dump_json())
        self._kept += 1
        while self._kept % _LOOK_EVERY == 0 and self._size() > self._most:
            self._run(_OLDEST, max(1, len(self) // 10))

    def contents(self) -> CacheStats:
        """How much there is, and of which models."""
        rows = self._run("SELECT model, count(*) FROM archqa_reply GROUP BY model ORDER BY model")
        return CacheStats(len(self), self._size(), dict(cast("list[tuple[str, int]]", rows)))

    def clear(self) -> int:
        """Drop every reply and give the space back; returns how many there were."""
        dropped = len(self)
        self._run("TRUNCATE archqa_reply")
        return dropped

    def _size(self) -> int:
        """Bytes of replies."""
        return int(
            self._run("SELECT coalesce(sum(octet_length(reply)), 0) FROM archqa_reply")[0][0]
        )

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM archqa_reply")[0][0])

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """One statement in a transaction of its own, and its rows. Raises `ServerUnavailable`, without record text."""
        import psycopg

        try:
            with self._pool.connection() as connection:
                done = connection.execute(statement.encode(), values)
                rows: list[tuple[Any, ...]] = done.fetchall() if done.description else []
                return rows
        except psycopg.Error as error:
            why = f"The cache's server failed ({type(error).__name__})."
            raise ServerUnavailable(
                f"{why}\nMend it, or go on without: --set cache=off --resume"
            ) from None


def _pool(url: str) -> "psycopg_pool.ConnectionPool[Any]":
    try:
        import psycopg
        import psycopg_pool
    except ImportError:
        raise MissingExtra("The PostgreSQL client", "ray") from None
    if not url.startswith(("postgresql://", "postgres://")):
        raise CallerError(
            "cache_url is no address of PostgreSQL.\nFor example: postgresql://user@host/archqa"
        )
    logging.getLogger("psycopg.pool").setLevel(
        logging.ERROR
    )  # It tells every try; the last is told by our error.
    pool: psycopg_pool.ConnectionPool[Any] = psycopg_pool.ConnectionPool(
        url, min_size=1, max_size=_CONNECTIONS, open=False, reconnect_timeout=30
    )
    try:
        pool.open(wait=True, timeout=10)
    except (psycopg_pool.PoolTimeout, psycopg.Error):
        pool.close()
        fix = "Check cache_url, the server and its password, or go on without: --set cache=off"
        raise ServerUnavailable(f"The cache's server does not answer.\n{fix}") from None
    return pool
