"""The cache of a run's replies; the run goes on without it when it fails."""

from collections.abc import Callable

from archqa.llm.cache import (
    GIBIBYTE,
    CachedModel,
    InFlightFiles,
    InFlightRequests,
    OptionalCache,
    ReplyCache,
    ServerCache,
    SqliteCache,
)
from archqa.llm.model import Model
from archqa.llm.postgres import PostgresCache
from archqa.safety.server_urls import server_identity
from archqa.settings import Settings


class RunCache:
    """The cached replies of a run, and the requests that it and other runs are asking now.

    `on_failure` is called with a remark when the cache is switched off. `in_flight` has the
    requests of all workers of a cluster; without it, those of this machine are coordinated.
    """

    def __init__(
        self,
        settings: Settings,
        on_failure: Callable[[str], object],
        in_flight: InFlightRequests | None = None,
    ) -> None:
        cache = OptionalCache(lambda: open_cache(settings), on_failure)
        self._cache = cache
        self._files: InFlightFiles | None = None
        if in_flight is None and cache.is_on:
            self._files = InFlightFiles(
                settings.cache.dir / "in_flight", lambda: cache.is_on
            )
        self._in_flight = in_flight or self._files

    def of_server(self, base_url: str | None) -> ServerCache:
        """The cached replies of one server."""
        return ServerCache(self._cache, server_identity(base_url))

    def cached(self, model: Model, base_url: str | None) -> Model:
        """A server's model that is asked only for what is not in the cache."""
        return CachedModel(model, self.of_server(base_url), self._in_flight)

    def close(self) -> None:
        """Close the cache, and let other runs ask what this one did not."""
        if self._files is not None:
            self._files.close()
        self._cache.close()


def open_cache(settings: Settings) -> ReplyCache:
    """The cache of replies: on a server if one is configured, else in a file.

    Raises `InputError` if the file is not a cache, `StorageError` if it cannot be read or written,
    `ServerUnavailable` if the server does not answer.
    """
    max_bytes = round(settings.cache.gib * GIBIBYTE)
    if settings.cache.url is None:
        return SqliteCache(settings.cache.path, max_bytes)
    return PostgresCache(settings.cache.url.get_secret_value(), max_bytes)
