"""Plug-ins: agents, backends, metrics, pipelines and tasks of other distributions.

A distribution names them as entry points of the groups `archqa.agents`, `archqa.backends`,
`archqa.metrics`, `archqa.pipelines` and `archqa.tasks`. Names are read from its metadata; nothing of
it is imported until one of its parts is used. A name of archqa's own cannot be taken.
"""

import logging
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from archqa.errors import PlugInError

Kind = Literal["agents", "backends", "metrics", "pipelines", "tasks"]

KINDS: tuple[Kind, ...] = ("agents", "backends", "metrics", "pipelines", "tasks")

BUILT_IN = "archqa"
"""Where a part comes from that is no plug-in's."""

_log = logging.getLogger("archqa")


class PlugIn(NamedTuple):
    """An entry point of another distribution. `target` is its `module:attribute`."""

    kind: Kind
    name: str
    target: str
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """The distribution with its version: `archqa-example-plugin 0.1.0`."""
        return f"{self.distribution} {self.version}"

    @property
    def entry_point(self) -> str:
        """How messages name it: `archqa.metrics: words_per_line = example.metric:WordsPerLine`."""
        return f"archqa.{self.kind}: {self.name} = {self.target}"

    def load(self) -> Any:
        """Import the object that the entry point names. Raises `PlugInError`."""
        return _load(self)

    def problem(self, what: str, advice: str = "") -> PlugInError:
        """The error that something is wrong with this plug-in."""
        advice = advice or f"Update {self.distribution}, or uninstall it."
        return PlugInError(
            f"The plug-in {self.entry_point} of {self.origin} {what}.\n{advice}"
        )


def installed(kind: Kind, built_in: Collection[str] = ()) -> tuple[PlugIn, ...]:
    """The plug-ins of a kind by name, without those that `conflicts` reports."""
    plug_ins: list[PlugIn] = []
    for name, same_name in _by_name(kind, tuple(sys.path)).items():
        if name not in built_in and len(same_name) == 1:
            plug_ins += same_name
    return tuple(plug_ins)


def find(kind: Kind, name: str, built_in: Collection[str] = ()) -> PlugIn | None:
    """The plug-in of this name; None if there is none.

    Raises `PlugInError` if several distributions have one of this name.
    """
    if name in built_in:
        return None
    same_name = _by_name(kind, tuple(sys.path)).get(name, ())
    if len(same_name) > 1:
        raise PlugInError(_several(same_name))
    return same_name[0] if same_name else None


def conflicts(kind: Kind, built_in: Collection[str] = ()) -> Iterator[str]:
    """A sentence for each name that a plug-in shares with archqa, or with another plug-in."""
    for name, same_name in _by_name(kind, tuple(sys.path)).items():
        if name in built_in:
            for plug_in in same_name:
                yield clash(plug_in)
        elif len(same_name) > 1:
            yield _several(same_name)


def clash(plug_in: PlugIn) -> str:
    """The sentence that a plug-in has a name of archqa's own."""
    return (
        f"The plug-in {plug_in.entry_point} of {plug_in.origin} is ignored: "
        f"archqa has {plug_in.kind} of its own, {plug_in.name} among them; it needs another name."
    )


def loaded(kind: Kind, built_in: Collection[str] = ()) -> Iterator[tuple[PlugIn, Any]]:
    """Every plug-in of a kind with its object; those that fail to import are named in a warning."""
    for plug_in in installed(kind, built_in):
        try:
            yield plug_in, plug_in.load()
        except PlugInError as error:
            warn(str(error))


def warn_of_clash(kind: Kind, name: str) -> None:
    """Log a warning if a plug-in has this name, which is one of archqa's own."""
    for plug_in in _by_name(kind, tuple(sys.path)).get(name, ()):
        warn(clash(plug_in))


@cache
def warn(sentence: str) -> None:
    """Log a sentence as a warning, once in a process."""
    _log.warning("%s", sentence)


def _several(same_name: Sequence[PlugIn]) -> str:
    origins = " and ".join(plug_in.origin for plug_in in same_name)
    return (
        f"{origins} both have a plug-in archqa.{same_name[0].kind}: {same_name[0].name}.\n"
        "Uninstall one of them."
    )


@cache
def _by_name(
    kind: Kind, _search_path: tuple[str, ...]
) -> Mapping[str, Sequence[PlugIn]]:
    """The entry points of a kind, from the metadata of what is installed on the search path."""
    from importlib import (
        metadata,
    )  # Slow to import, and most commands look for no plug-in.

    plug_ins = set()
    for entry_point in metadata.entry_points(group=f"archqa.{kind}"):
        distribution = entry_point.dist
        name, version = "an unnamed distribution", ""
        if distribution is not None:
            name, version = distribution.name, distribution.version
        plug_ins.add(PlugIn(kind, entry_point.name, entry_point.value, name, version))
    by_name: dict[str, list[PlugIn]] = {}
    for plug_in in sorted(
        plug_ins, key=lambda plug_in: (plug_in.name, plug_in.distribution)
    ):
        by_name.setdefault(plug_in.name, []).append(plug_in)
    return by_name


@cache
def _load(plug_in: PlugIn) -> Any:
    from importlib.metadata import EntryPoint

    entry_point = EntryPoint(plug_in.name, plug_in.target, f"archqa.{plug_in.kind}")
    try:
        return entry_point.load()
    except (
        Exception
    ) as error:  # Whatever somebody else's module does when it is imported.
        reason = " ".join(str(error).split())
        raise plug_in.problem(
            f"cannot be imported ({type(error).__name__}: {reason})"
        ) from error
