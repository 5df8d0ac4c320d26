"""Runs the tools in threads: each call has its time, and a failure tells nothing of the record."""

import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

from archqa.errors import ArchqaError, CaseFailed
from archqa.fhir.request_budget import RequestBudget, RequestCancelled, use_budget
from archqa.mcp.limits import CallLimits

_MOST_CALLS = 8
"""Calls at once, those among them whose client has left or whose time is over."""

_TOO_MANY = "The server is busy with other calls. Ask again later."
_FAILED = "archqa failed at this call. Whoever runs the server sees the kind of failure."

_log = logging.getLogger("archqa.mcp")


class Calls:
    """Calls of tools within limits, a few at once."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._places = threading.BoundedSemaphore(_MOST_CALLS)

    def tool(self, function: Callable[..., BaseModel]) -> Callable[..., Awaitable[BaseModel]]:
        """Return a function as the SDK calls it: with the same parameters, in a thread."""

        @functools.wraps(function)
        async def call(**arguments: Any) -> BaseModel:
            return await self._run(functools.partial(function, **arguments))

        call.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
        return call

    async def _run(self, work: Callable[[], BaseModel]) -> BaseModel:
        if not self._places.acquire(blocking=False):
            raise ToolError(_TOO_MANY)
        call = _Call(work, self._limits, self._places)
        try:
            with anyio.fail_after(self._limits.seconds):
                return await anyio.to_thread.run_sync(call.run, abandon_on_cancel=True)
        except TimeoutError:
            raise ToolError(call.too_slow) from None
        finally:
            call.end()


class _Call:
    """One call of a tool. It has its place until its thread ends, also if nobody waits for it."""

    def __init__(
        self, work: Callable[[], BaseModel], limits: CallLimits, places: threading.BoundedSemaphore
    ) -> None:
        self._work = work
        self._limits = limits
        self._places = places
        self._budget = RequestBudget(limits.for_record)
        self._has_started = False

    def run(self) -> BaseModel:
        """Return the reply; in a thread of its own."""
        self._has_started = True
        try:
            with use_budget(self._budget):
                return self._reply()
        finally:
            self._places.release()

    def end(self) -> None:
        """Stop the thread at its next search, if it still works."""
        self._budget.cancel()
        if not self._has_started:
            self._places.release()

    @property
    def too_slow(self) -> str:
        """What a client is told after the time."""
        limit = f"The call took longer than {self._limits.seconds:g} seconds."
        return f"{limit} Ask for less: a type, a code, a date, one section."

    def _reply(self) -> BaseModel:
        """Return the reply. Raises `ToolError` with what went wrong, without the failure behind."""
        try:
            reply = self._work()
            self._limits.check_size(reply)
        except RequestCancelled:
            raise ToolError(self.too_slow) from None
        except CaseFailed as error:
            raise ToolError(error.full_text) from None
        except ArchqaError as error:
            raise ToolError(str(error)) from None
        except Exception as error:
            _log.error("A call failed (%s).", type(error).__name__)
            raise ToolError(_FAILED) from None
        return reply
