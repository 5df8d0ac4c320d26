"""A cache that a run can do without: at its first failure it is switched off, and nothing is lost."""

from collections.abc import Callable

from archqa.errors import InputError, ServerUnavailable, StorageError
from archqa.llm.cache import ReplyCache
from archqa.llm.model import Reply

_FAILURES = (InputError, StorageError, ServerUnavailable)


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
