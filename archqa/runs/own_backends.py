"""Backends that are not archqa's: plug-ins by name, or an object that a caller brings."""

import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple

from archqa import plug_ins
from archqa.agents.agent import Backend
from archqa.agents.checked_backend import CheckedBackend
from archqa.errors import CallerError
from archqa.settings import BACKENDS, Settings

_KINDS = (*BACKENDS, "script")


class OwnBackend(NamedTuple):
    """A backend of one's own: its name in the settings, the object, and where that comes from."""

    name: str
    backend: Backend
    origin: str

    @property
    def description(self) -> str:
        """For `run.json`: `echo of archqa-example-plugin 0.1.0`."""
        return f"{self.name} of {self.origin}"

    @property
    def checked(self) -> CheckedBackend:
        """The backend as a run uses it."""
        return CheckedBackend(self.backend, self.name)

    async def close(self) -> None:
        """Close it, if it has a method `close`."""
        close = getattr(self.backend, "close", None)
        closing = close() if close is not None else None
        if inspect.isawaitable(closing):
            await closing


def own_backend_names(settings: Settings, agents: tuple[str, ...]) -> tuple[str, ...]:
    """The backends in the settings of these agents that are not archqa's, each once."""
    names = (settings.backend_of(agent) for agent in agents)
    return tuple(dict.fromkeys(name for name in names if name and name not in _KINDS))


def brought(backend: Backend) -> OwnBackend:
    """The object that a caller of `predict` brings, by the name of its class.

    Raises `CallerError` for what is no backend.
    """
    cls = type(backend)
    if isinstance(backend, type) or not inspect.iscoroutinefunction(getattr(cls, "run", None)):
        raise CallerError(
            "backend is no backend: an object with `async def run(agent, task, context)`.\n"
            "See archqa.agents.Backend, or name one of `archqa list backends`."
        )
    return OwnBackend(cls.__name__, backend, f"{cls.__module__}.{cls.__qualname__}")


def open_backends(
    settings: Settings, agents: tuple[str, ...], own: OwnBackend | None
) -> dict[str, OwnBackend]:
    """The backends that are not archqa's, by name, as the settings of these agents name them.

    Raises `CallerError` with a spending limit, which archqa cannot watch there; `PlugInError`.
    """
    names = own_backend_names(settings, agents)
    if names and settings.limits.max_cost is not None:
        raise CallerError(
            f"What the backend {names[0]} spends is not known here, so max_cost cannot limit it.\n"
            "Leave --max-cost out, or set max_cost=none."
        )
    known: Mapping[str, OwnBackend] = {own.name: own} if own else {}
    return {name: known.get(name) or _plugged_in(name, settings) for name in names}


def _plugged_in(name: str, settings: Settings) -> OwnBackend:
    plug_in = plug_ins.find("backends", name, BACKENDS)
    if plug_in is None:
        raise CallerError(f"There is no backend {name!r}.\nSee: archqa list backends")
    make: Callable[[Settings], Backend] = plug_in.load()
    try:
        backend = make(settings)
    except TypeError as error:
        raise plug_in.problem(f"cannot be called with the run's settings ({error})") from None
    if not callable(getattr(backend, "run", None)):
        raise plug_in.problem("has no method run; see archqa.agents.Backend")
    return OwnBackend(name, backend, plug_in.origin)
