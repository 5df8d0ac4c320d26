"""A record's tools over the Model Context Protocol: search, read, query, ask, brief."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archqa.mcp.records import CallLimits, ServedRecord
    from archqa.mcp.server import build_server, http_application
    from archqa.mcp.tools import RecordTools

__all__ = [
    "CallLimits",
    "RecordTools",
    "ServedRecord",
    "build_server",
    "http_application",
]

_MODULES = {
    "CallLimits": "records",
    "RecordTools": "tools",
    "ServedRecord": "records",
    "build_server": "server",
    "http_application": "server",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is used first: the server needs the extra `mcp`."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'archqa.mcp' has no attribute {name!r}")
    return getattr(import_module(f"archqa.mcp.{_MODULES[name]}"), name)
