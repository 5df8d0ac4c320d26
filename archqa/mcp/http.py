"""The protocol over HTTP (Streamable HTTP): only clients with the token reach the server."""

import socket
from typing import TYPE_CHECKING, Any

from archqa.safety.local_server import App, LocalAccess, Receive, Refusal, Scope, Send, run_server

if TYPE_CHECKING:
    from mcp.server import MCPServer

PATH = "/mcp"

_COMMAND = "archqa mcp --http"


class TokenCheck:
    """An ASGI application in front of the server: it passes on what `LocalAccess` allows."""

    def __init__(self, app: App, access: LocalAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one line."""
        if scope["type"] == "http":
            refusal = self._access.refusal(scope) or self._refusal_of_url_token(scope)
            if refusal is not None:
                await _refuse(send, refusal)
                return
        await self._app(scope, receive, send)

    def _refusal_of_url_token(self, scope: Scope) -> Refusal | None:
        """Refuse a token in a URL: clients of the protocol send headers, and URLs are logged."""
        if self._access.has_token_in_url(scope):
            return Refusal(401, "Send the token as 'Authorization: Bearer TOKEN', not in the URL.")
        return None


def application(server: "MCPServer[Any]", *, token: str | None, on_loopback: bool) -> TokenCheck:
    """Return the server as an ASGI application; without a token it answers to this machine."""
    from mcp.server.transport_security import TransportSecuritySettings

    # `LocalAccess` checks Host and Origin, for any port and name of this machine.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: Any = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, transport_security=unchecked
    )
    return TokenCheck(app, LocalAccess(token, on_loopback=on_loopback, command=_COMMAND))


def serve_http(
    server: "MCPServer[Any]", listening: socket.socket, *, token: str | None, on_loopback: bool
) -> None:
    """Serve until Ctrl-C, on a socket that listens already."""
    app = application(server, token=token, on_loopback=on_loopback)
    run_server(app, listening, lifespan=True)


async def _refuse(send: Send, refusal: Refusal) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.text.encode()})
