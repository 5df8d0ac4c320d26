"""Start a local server: bind its address first, then say that it serves, then serve (uvicorn)."""

import errno
import os
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from archqa.errors import CallerError, MissingExtra
from archqa.safety.local_access import App
from archqa.safety.server_urls import is_loopback

if TYPE_CHECKING:
    import uvicorn

_MAX_REQUESTS = 512
"""Requests at once, of which the connection may be gone already."""

_BACKLOG = 128
"""Connections that wait while the server starts."""


def require_uvicorn(part: str, extra: str) -> None:
    """Raise `MissingExtra` if uvicorn is not installed."""
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra(part, extra) from None


def check_protected(host: str, *, has_token: bool) -> None:
    """Raise `CallerError` for an address that others can reach without a token."""
    if not has_token and not is_loopback(host):
        raise CallerError(
            "An address that others can reach needs a token.\n"
            "Leave --no-token away, or --host: the default is this machine alone."
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections already; port 0 stands for any that is free.

    Raises `CallerError` if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small replies at once: else 40 ms later (TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # Elsewhere it would let a second server take a port that is in use.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        listening.close()
        raise CallerError(_why_not(host, port, error)) from None
    return listening


def server_url(host: str, listening: socket.socket, path: str = "/") -> str:
    """Return the address of a server, with the port that it listens on."""
    name = host.strip("[]")
    url_host = f"[{name}]" if ":" in name else name
    port = listening.getsockname()[1]
    return f"http://{url_host}:{port}{path}"


def url_with_token(url: str, token: str | None) -> str:
    """Return the address that lets its reader in; the same one if no token is asked for."""
    return f"{url}?{urlencode({'token': token})}" if token else url


def build_server(app: App, *, lifespan: bool = False) -> "uvicorn.Server":
    """Return a server that keeps no access log: URLs hold ids of patients and cases."""
    import uvicorn

    from archqa.safety.connection_limits import TimedProtocol

    config: Any = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="on" if lifespan else "off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MAX_REQUESTS,
    )
    return uvicorn.Server(config)


def run_server(app: App, listening: socket.socket, *, lifespan: bool = False) -> None:
    """Serve until Ctrl-C, the usual end; it raises `KeyboardInterrupt` once all is closed."""
    build_server(app, lifespan=lifespan).run(sockets=[listening])


def _why_not(host: str, port: int, error: Exception) -> str:
    reason = f"{host}:{port} cannot be listened on."
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        reason = f"Port {port} is taken."
    return f"{reason}\nName another with --host and --port; --port 0 takes any that is free."
