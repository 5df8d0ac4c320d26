"""Repeats a request after a passing fault, no sooner than the server asked for."""

from typing import TYPE_CHECKING

from archqa.errors import ServerUnavailable
from archqa.llm.limits import MAX_RETRY_AFTER_SECONDS
from archqa.llm.model import Model, Reply, Request, TransientError

if TYPE_CHECKING:
    import stamina


class RetryingModel:
    """Makes up to `tries` attempts with growing, jittered waits in seconds; then raises
    `ServerUnavailable`.
    """

    def __init__(
        self,
        inner: Model,
        *,
        tries: int = 5,
        first_wait: float = 0.5,
        max_wait: float = 30.0,
    ) -> None:
        self._inner = inner
        self._tries = tries
        self._first_wait = first_wait
        self._max_wait = max_wait

    async def ask(self, request: Request) -> Reply:
        """Answer one request, after retries if need be."""
        attempt_count = 0
        try:
            async for attempt in self._attempts():
                attempt_count = attempt.num
                with attempt:
                    return await self._inner.ask(request)
        except TransientError as fault:
            raise ServerUnavailable(
                f"The model's server failed {attempt_count} times; the last time: {fault}.\n"
                "Try again later: --resume goes on where this run stopped."
            ) from None
        raise AssertionError("the loop returns or raises")

    def _attempts(self) -> "stamina._core._RetryContextIterator":
        import stamina  # Slow to import, and not every command calls a server.

        return stamina.retry_context(
            on=_retry_wait,
            attempts=self._tries,
            timeout=None,
            wait_initial=self._first_wait,
            wait_max=self._max_wait,
            wait_jitter=self._first_wait,
        )


def _retry_wait(error: Exception) -> bool | float:
    """Whether to retry, or the seconds to wait where the server named them."""
    if not isinstance(error, TransientError):
        return False
    if error.retry_after is None:
        return True
    if error.retry_after > MAX_RETRY_AFTER_SECONDS:
        return False
    return error.retry_after
