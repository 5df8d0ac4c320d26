"""The Ray cluster a run works on: the one that was named, the one this process is in already, or a new one here."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from archqa.errors import CallerError, MissingExtra
from archqa.settings import Settings

_BETWEEN_NODES = "archqa"
"""The namespace of our actors, so that other users of the cluster do not meet them."""


@contextmanager
def ray_cluster(settings: Settings) -> Iterator[Any]:
    """The `ray` module, connected; what was not connected before is let go at the end.

    Raises `MissingExtra` without Ray, `CallerError` if no cluster answers at the address.
    """
    # Set before Ray is imported: it reports its use to its makers otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, settings.ray.address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("Ray", "ray") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    if address is not None and address.startswith("ray://"):
        raise CallerError(
            "--ray-address with ray:// is Ray's remote client, which cannot carry a run.\n"
            "Start archqa on a machine of the cluster: --ray-address auto, or HOST:6379."
        )
    ways = {"namespace": _BETWEEN_NODES, "log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # Not what happens to be on this machine: `auto` asks for that.
        ray.init("local", include_dashboard=False, **ways)
        return
    try:
        _knock(address)
        ray.init(address, **ways)
    except (OSError, ValueError, RuntimeError):
        raise CallerError(
            f"No Ray cluster answers at {address}.\n"
            "Start one with `ray start --head`, or leave --ray-address out for one on this machine."
        ) from None


def _knock(address: str) -> None:
    """Ray tries for minutes where nobody is. Raises `OSError`."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()
