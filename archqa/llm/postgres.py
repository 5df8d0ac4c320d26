"""Replies that were paid for, on a PostgreSQL server: the cache that several machines share.

The same rows as in `SqliteCache`; a reply is committed before it is used. Record text goes to that
server: its disk, its backups and its connections (`sslmode=verify-full` in the URL) must be as
private as the record.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from archqa.errors import CallerError, MissingExtra, ServerUnavailable
from archqa.llm.cache import GIBIBYTE, ReplyCache

if TYPE_CHECKING:
    import psycopg_pool

_MAX_CONNECTIONS = 4
"""Connections of one process."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS archqa_reply (
    digest text PRIMARY KEY, model text NOT NULL,
    stored_at double precision NOT NULL, reply text NOT NULL
)
"""
_LOCK = "SELECT pg_advisory_xact_lock(4713227)"
"""Creating the same table twice at once would fail. The number is arbitrary; nothing else locks it.
"""


class PostgresCache(ReplyCache):
    """The table of replies at a URL. Safe with several threads, processes and machines.

    Raises `CallerError` for an invalid URL, `ServerUnavailable` if the server cannot be reached.
    """

    is_remote = True
    table = "archqa_reply"

    def __init__(self, url: str, max_bytes: int = 4 * GIBIBYTE) -> None:
        super().__init__(max_bytes)
        self._pool = _pool(url)
        try:
            with _server_errors(), self._pool.connection() as connection:
                connection.execute(_LOCK)
                connection.execute(_SCHEMA)
                connection.execute(
                    "SELECT digest, model, stored_at, reply FROM archqa_reply LIMIT 1"
                )
        except BaseException:
            self._pool.close()
            raise

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement in its own transaction. Raises `ServerUnavailable`, without record text."""
        with _server_errors(), self._pool.connection() as connection:
            cursor = connection.execute(statement.replace("?", "%s").encode(), values)
            rows: list[tuple[Any, ...]] = (
                cursor.fetchall() if cursor.description else []
            )
            return rows

    def size(self) -> int:
        """Bytes of replies."""
        rows = self.run(
            "SELECT coalesce(sum(octet_length(reply)), 0) FROM archqa_reply"
        )
        return int(rows[0][0])

    def clear(self) -> int:
        """Delete every reply and free the space; returns how many there were."""
        count = len(self)
        self.run("TRUNCATE archqa_reply")
        return count

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


@contextmanager
def _server_errors() -> Iterator[None]:
    """Raise what psycopg raises as `ServerUnavailable`; its messages may quote a row."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise ServerUnavailable(
            f"The cache's server failed ({type(error).__name__}).\n"
            "Repair it, or continue without a cache: --set cache=off"
        ) from None


def _pool(url: str) -> "psycopg_pool.ConnectionPool[Any]":
    try:
        import psycopg
        import psycopg_pool
    except ImportError:
        raise MissingExtra("The PostgreSQL client", "ray") from None
    if not url.startswith(("postgresql://", "postgres://")):
        raise CallerError(
            "cache_url is not a PostgreSQL URL.\nFor example: postgresql://user@host/archqa"
        )
    # The pool logs every failed attempt; the error below reports the last one.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    pool: psycopg_pool.ConnectionPool[Any] = psycopg_pool.ConnectionPool(
        url,
        min_size=1,
        max_size=_MAX_CONNECTIONS,
        open=False,
        reconnect_timeout=30,
    )
    try:
        pool.open(wait=True, timeout=10)
    except (psycopg_pool.PoolTimeout, psycopg.Error):
        pool.close()
        raise ServerUnavailable(
            "The cache's server does not answer.\n"
            "Check cache_url, the server and its password, or run without a cache: --set cache=off"
        ) from None
    return pool
