"""A record's tools over the Model Context Protocol: search, read, query, ask, brief."""

from typing import TYPE_CHECKING

from archqa.core.public_names import imported_on_use

if TYPE_CHECKING:
    from archqa.mcp.records import CallLimits, ServedRecord
    from archqa.mcp.server import build_server, http_application, serve_standard_input
    from archqa.mcp.tools import RecordTools

__all__ = [
    "CallLimits",
    "RecordTools",
    "ServedRecord",
    "build_server",
    "http_application",
    "serve_standard_input",
]

_NAMES = {
    "records": ["CallLimits", "ServedRecord"],
    "server": ["build_server", "http_application", "serve_standard_input"],
    "tools": ["RecordTools"],
}
"""Module to its public names: the server needs the extra `mcp`."""

__getattr__ = imported_on_use(__name__, _NAMES)
