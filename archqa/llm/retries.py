"""Asking again when a fault may pass, no sooner than the server said."""

import stamina

from archqa.errors import ServerUnavailable
from archqa.llm.limits import MAX_RETRY_AFTER_SECONDS
from archqa.llm.model import Model, Reply, Request, TransientError


class RetryingModel:
    """Tries a request up to `tries` times with growing, jittered waits; then raises `ServerUnavailable`."""

    def __init__(
        self, inner: Model, *, tries: int = 5, first_wait: float = 0.5, longest_wait: float = 30.0
    ) -> None:
        self._inner = inner
        self._tries = tries
        self._first_wait = first_wait
        self._longest_wait = longest_wait

    async def ask(self, request: Request) -> Reply:
        """Answer one request, whatever passes meanwhile."""
        tried = 0
        try:
            async for attempt in self._attempts():
                tried = attempt.num
                with attempt:
                    return await self._inner.ask(request)
        except TransientError as last:
            why = f"The model's server failed {tried} times; the last time: {last}."
            raise ServerUnavailable(
                f"{why}\nTry again later: --resume goes on where this run stopped."
            ) from None
        raise AssertionError("the loop returns or raises")

    def _attempts(self) -> stamina._core._RetryContextIterator:
        return stamina.retry_context(
            on=_when,
            attempts=self._tries,
            timeout=None,
            wait_initial=self._first_wait,
            wait_max=self._longest_wait,
            wait_jitter=self._first_wait,
        )


def _when(error: Exception) -> bool | float:
    """Whether to ask again, or after how many seconds where the server said so."""
    if not isinstance(error, TransientError):
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after <= MAX_RETRY_AFTER_SECONDS else False
