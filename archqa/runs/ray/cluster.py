"""Connects to the Ray cluster of a run.

It is the cluster named in the settings, the one this process is connected to, or a new one here.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from archqa.errors import CallerError, MissingExtra
from archqa.settings import Settings

_NAMESPACE = "archqa"
"""The namespace of our actors, apart from those of other users of the cluster."""

_CONNECT_SECONDS = 10


@contextmanager
def ray_cluster(settings: Settings) -> Iterator[Any]:
    """The `ray` module, connected; disconnects at the end if it was not connected before.

    Raises `MissingExtra` without Ray, `CallerError` if no cluster answers at the address.
    """
    # Set before Ray is imported: it reports usage statistics to its makers otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, settings.ray.address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _import_ray() -> Any:
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
    options = {"namespace": _NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        # "local" starts a new cluster; `auto` would use one that runs on this machine.
        ray.init("local", include_dashboard=False, **options)
        return
    try:
        _check_reachable(address)
        ray.init(address, **options)
    except (OSError, ValueError, RuntimeError):
        raise CallerError(
            f"No Ray cluster answers at {address}.\n"
            "Start one with `ray start --head`, or leave --ray-address out for one on this machine."
        ) from None


def _check_reachable(address: str) -> None:
    """Raise `OSError` at once where nothing listens; Ray itself would retry for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
