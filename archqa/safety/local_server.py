"""Local servers: who may use one, what other web sites may do with it, and how it is started.

Programs and users of the machine need a token: `Authorization: Bearer`, or `?token=` once and then a
cookie. A site that rebinds its own name to loopback is stopped by the `Host` header. A site that a
user visits at the same time is stopped by `Origin` and `Sec-Fetch-*`; pages of other sites may read
replies (CORS) only where their exact origin is allowed, and then need the token itself.

Sources: RFC 6750 (bearer), RFC 6265 (cookies), W3C Fetch Metadata, W3C Fetch 3.2 (CORS).
"""

import errno
import hashlib
import hmac
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote_plus, urlencode, urlsplit

from archqa.errors import CallerError, MissingExtra
from archqa.safety.server_urls import is_loopback

if TYPE_CHECKING:
    import uvicorn


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

_SAFE_METHODS = frozenset({"GET", "HEAD"})

_HOST_HEADER = re.compile(
    r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE
)

_BEARER_TOKEN = re.compile(r"[!-~]+")
"""Visible ASCII without spaces: what a header can hold."""


_ORIGIN = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_ALLOWED_HEADERS = (
    b"Accept, Authorization, Content-Encoding, Content-Type, If-Match, If-Modified-Since,"
    b" If-None-Match, Prefer"
)
_EXPOSED_HEADERS = b"Allow, ETag, Last-Modified, Link, Location, Preference-Applied, Retry-After, Warning"
_ALLOWED_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_MAX_AGE = b"600"
"""Seconds for which a browser need not ask again."""

_MAX_REQUESTS = 512
"""Requests at once, of which the connection may be gone already."""

_BACKLOG = 128
"""Connections that wait while the server starts."""


class Refusal(NamedTuple):
    """Why a request is not answered: HTTP status and one sentence that holds no secret."""

    status: int
    text: str


class Login(NamedTuple):
    """The reply that moves a token from the URL to a cookie."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class LocalAccess:
    """The rules of one server. `command` is what printed its address, for the text of a refusal.

    `token` is None if none is asked for. With `on_loopback`, and always without a token, only the
    names of this machine are answered; elsewhere any name is, and the token protects. Pages of the
    allowed `origins` are answered as well, but not by the cookie: they must send the token.
    """

    token: str | None = field(default=None, repr=False)
    on_loopback: bool = False
    command: str = "archqa serve"
    origins: frozenset[str] = frozenset()

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why an HTTP request must be refused; None if it may pass."""
        host = _host_header(scope)
        if host is None:
            return Refusal(400, "A request names one host, in its Host header.")
        answers_any_name = self.token is not None and not self.on_loopback
        if not answers_any_name and not is_loopback(host["name"].removesuffix(".")):
            return Refusal(
                421, "This server answers to the names of its own machine alone."
            )
        is_allowed_page = allowed_origin(scope, self.origins) is not None
        if not is_allowed_page and _is_from_another_site(scope, host):
            return Refusal(403, "Another site sent this request.")
        if not self._is_authorised(scope, host):
            return Refusal(
                401,
                f"A token is needed: open the address with ?token= that {self.command} printed, "
                "or send the token as 'Authorization: Bearer TOKEN'.",
            )
        return None

    def has_token_in_url(self, scope: Scope) -> bool:
        """Whether the URL of a read holds the token."""
        if self.token is None or scope["method"] not in _SAFE_METHODS:
            return False
        query = scope["query_string"].decode("latin-1")
        return any(
            _is_same(token, self.token) for token in parse_qs(query).get("token", ())
        )

    def login(self, scope: Scope, headers: Headers = ()) -> Login:
        """Reply to a browser that opened the printed address: set the cookie, drop the token.

        `headers` are added. A browser sends no strict cookie after a redirect that began on another
        site: there a page that loads the next one takes the place of the redirect.
        """
        # Never the address of another host.
        path = "/" + quote(scope["path"].lstrip("/\\"))
        query = _query_without_token(scope["query_string"].decode("latin-1"))
        url = f"{path}?{query}" if query else path
        headers = (*headers, self.cookie_header(scope))
        if "cross-site" not in header_values(scope, b"sec-fetch-site"):
            return Login(303, (*headers, (b"location", url.encode())), b"")
        page = (
            f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(url)}">'
        )
        content_type = (b"content-type", b"text/html; charset=utf-8")
        return Login(200, (*headers, content_type), page.encode())

    def cookie_header(self, scope: Scope) -> tuple[bytes, bytes]:
        """Return the header that lets a browser in from now on."""
        name = _cookie_name(_host_header(scope))
        cookie = f"{name}={self._cookie_value()}; Path=/; HttpOnly; SameSite=Strict"
        return b"set-cookie", cookie.encode()

    def _is_authorised(self, scope: Scope, host: re.Match[str]) -> bool:
        if self.token is None or self.has_token_in_url(scope):
            return True
        for header in header_values(scope, b"authorization"):
            scheme, _, token = header.partition(" ")
            if scheme.lower() == "bearer" and _is_same(token.strip(), self.token):
                return True
        if _is_from_another_site(scope, host):
            return False
        cookie_name = _cookie_name(host)
        cookie_value = self._cookie_value()
        # Servers on other ports share the cookies: theirs may be malformed and are skipped.
        for header in header_values(scope, b"cookie"):
            for cookie in header.split(";"):
                name, _, value = cookie.strip().partition("=")
                if name == cookie_name and _is_same(value, cookie_value):
                    return True
        return False

    def _cookie_value(self) -> str:
        """Return what the cookie holds: no character of a token can break it."""
        token = self.token or ""
        return hmac.new(token.encode(), b"archqa cookie", hashlib.sha256).hexdigest()


def new_token() -> str:
    """Return a token that cannot be guessed: 192 random bits."""
    return secrets.token_urlsafe(24)


def check_token(token: str) -> str:
    """Return a token that a user chose, without space around it.

    Raises `CallerError` if no header could hold it, or if archqa's own client would send it as a
    user name and a password.
    """
    stripped = token.strip()
    if ":" in stripped or not _BEARER_TOKEN.fullmatch(stripped):
        raise CallerError(
            "The token holds a character that a bearer token cannot.\n"
            "Use letters, digits and signs of ASCII, without spaces and colons."
        )
    return stripped


def without_token(scope: Scope) -> Scope:
    """Return a request whose query has no token: no page, link or log may repeat it."""
    query = _query_without_token(scope["query_string"].decode("latin-1"))
    return {**scope, "query_string": query.encode("latin-1")}


def is_navigation(scope: Scope) -> bool:
    """Whether a browser loads the reply as the page of a tab."""
    mode = header_values(scope, b"sec-fetch-mode")
    destination = header_values(scope, b"sec-fetch-dest")
    is_read = scope["method"] in _SAFE_METHODS
    return is_read and mode == ["navigate"] and destination == ["document"]


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return the values of every header of that name, as sent."""
    return [
        value.decode("latin-1")
        for key, value in scope["headers"]
        if key.lower() == name
    ]


def allowed_origin(scope: Scope, origins: frozenset[str]) -> str | None:
    """Return the only `Origin` of a request if it is one of these."""
    sent = header_values(scope, b"origin")
    return sent[0] if len(sent) == 1 and sent[0] in origins else None


def _is_from_another_site(scope: Scope, host: re.Match[str]) -> bool:
    """Whether the browser says that another site sent the request.

    A link on another site may open a page in a tab: that site cannot read it.
    """
    for origin in header_values(scope, b"origin"):
        try:
            netloc = urlsplit(origin).netloc.lower()
        except ValueError:
            netloc = ""
        if netloc != host[0].lower():
            return True
    sites = set(header_values(scope, b"sec-fetch-site"))
    return not sites <= {"same-origin", "none"} and not is_navigation(scope)


def _host_header(scope: Scope) -> re.Match[str] | None:
    """Return the only Host header; None if there is none, more than one, or it is malformed."""
    hosts = header_values(scope, b"host")
    return _HOST_HEADER.fullmatch(hosts[0]) if len(hosts) == 1 else None


def _cookie_name(host: re.Match[str] | None) -> str:
    """Return the name of the cookie: one for each port, since the ports of a host share cookies.

    The port is the one that the browser sees, which a forwarded port changes.
    """
    port = host["port"] if host else None
    return f"archqa_token_{port or _DEFAULT_PORTS['http']}"


def _query_without_token(query: str) -> str:
    """Drop `token` from a query; all other parameters stay as they were written."""
    parameters = []
    for parameter in query.split("&"):
        name = parameter.partition("=")[0]
        if unquote_plus(name) != "token":
            parameters.append(parameter)
    return "&".join(parameters)


def _is_same(text: str, secret: str) -> bool:
    """Compare in a time that does not depend on where they differ."""
    return hmac.compare_digest(
        text.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass")
    )


def check_origin(text: str) -> str:
    """Return an origin as browsers send it. Raises `CallerError` for what is no exact origin."""
    origin = text.strip().lower()
    scheme, _, rest = origin.partition("://")
    if not _ORIGIN.fullmatch(origin):
        raise CallerError(
            "An origin is a scheme and a host, perhaps with a port, and nothing else.\n"
            "Write it as the browser does: https://app.example.org or http://localhost:3000"
        )
    return f"{scheme}://{rest.removesuffix(':' + _DEFAULT_PORTS[scheme])}"


@dataclass(frozen=True)
class CrossOrigin:
    """The origins whose pages may read the replies."""

    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, origins: Iterable[str]) -> "CrossOrigin":
        """Return the rules for these origins. Raises `CallerError`."""
        return cls(frozenset(check_origin(origin) for origin in origins))

    def is_preflight(self, scope: Scope) -> bool:
        """Whether a browser asks what a page of an allowed origin may send."""
        is_asked = bool(header_values(scope, b"access-control-request-method"))
        return (
            scope["method"] == "OPTIONS"
            and is_asked
            and allowed_origin(scope, self.origins) is not None
        )

    def preflight_headers(self) -> Headers:
        """Return what the reply to a preflight adds to `reply_headers`."""
        return (
            (b"access-control-allow-methods", _ALLOWED_METHODS),
            (b"access-control-allow-headers", _ALLOWED_HEADERS),
            (b"access-control-max-age", _MAX_AGE),
        )

    def reply_headers(self, scope: Scope) -> Headers:
        """Return the headers that let an allowed page read the reply."""
        if not self.origins:
            return ()
        varies = (b"vary", b"Origin")
        origin = allowed_origin(scope, self.origins)
        if origin is None:
            return (varies,)
        return (
            varies,
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
        )


def require_uvicorn() -> None:
    """Raise `MissingExtra` if uvicorn is not installed."""
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("The FHIR server (uvicorn)", "server") from None


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
    if (
        os.name == "posix"
    ):  # Elsewhere it would let a second server take a port that is in use.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        listening.close()
        reason = f"{host}:{port} cannot be listened on."
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            reason = f"Port {port} is taken."
        raise CallerError(
            f"{reason}\nName another with --host and --port; --port 0 takes any that is free."
        ) from None
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
