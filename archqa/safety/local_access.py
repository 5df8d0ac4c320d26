"""Who may use a local server, and what other web sites may do with it through a browser.

Three doors are kept shut. Programs and users of the machine need a token: `Authorization: Bearer`,
or `?token=` once and then a cookie. A site that rebinds its own name to loopback is stopped by the
`Host` header. A site that a user visits at the same time is stopped by `Origin` and `Sec-Fetch-*`.

Sources: RFC 6750 (bearer), RFC 6265 (cookies), W3C Fetch Metadata.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote_plus, urlsplit

from archqa.errors import CallerError
from archqa.safety.server_urls import is_loopback

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

_DEFAULT_PORT = "80"


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
        if not self._is_answered(host):
            return Refusal(421, "This server answers to the names of its own machine alone.")
        is_allowed_page = allowed_origin(scope, self.origins) is not None
        if not is_allowed_page and _is_from_another_site(scope, host):
            return Refusal(403, "Another site sent this request.")
        if not self._is_authorised(scope, host):
            return Refusal(401, self._how_to_get_in())
        return None

    def has_token_in_url(self, scope: Scope) -> bool:
        """Whether the URL of a read holds the token."""
        if self.token is None or scope["method"] not in _SAFE_METHODS:
            return False
        query = scope["query_string"].decode("latin-1")
        return any(_is_same(token, self.token) for token in parse_qs(query).get("token", ()))

    def login(self, scope: Scope, headers: Headers = ()) -> Login:
        """Reply to a browser that opened the printed address: set the cookie, drop the token.

        `headers` are added. A browser sends no strict cookie after a redirect that began on another
        site: there a page that loads the next one takes the place of the redirect.
        """
        url = _url_without_token(scope)
        headers = (*headers, self.cookie_header(scope))
        if not _is_marked_cross_site(scope):
            return Login(303, (*headers, (b"location", url.encode())), b"")
        page = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(url)}">'
        content_type = (b"content-type", b"text/html; charset=utf-8")
        return Login(200, (*headers, content_type), page.encode())

    def cookie_header(self, scope: Scope) -> tuple[bytes, bytes]:
        """Return the header that lets a browser in from now on."""
        name = _cookie_name(_host_header(scope) or "")
        cookie = f"{name}={self._cookie_value()}; Path=/; HttpOnly; SameSite=Strict"
        return b"set-cookie", cookie.encode()

    def _is_answered(self, host: str) -> bool:
        if self.token is not None and not self.on_loopback:
            return True
        return is_loopback(_host_name(host))

    def _is_authorised(self, scope: Scope, host: str) -> bool:
        if self.token is None or self.has_token_in_url(scope):
            return True
        if self._has_bearer(scope):
            return True
        return not _is_from_another_site(scope, host) and self._has_cookie(scope, host)

    def _has_bearer(self, scope: Scope) -> bool:
        assert self.token is not None
        for header in header_values(scope, b"authorization"):
            scheme, _, token = header.partition(" ")
            if scheme.lower() == "bearer" and _is_same(token.strip(), self.token):
                return True
        return False

    def _has_cookie(self, scope: Scope, host: str) -> bool:
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

    def _how_to_get_in(self) -> str:
        return (
            f"A token is needed: open the address with ?token= that {self.command} printed, "
            "or send the token as 'Authorization: Bearer TOKEN'."
        )


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
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def allowed_origin(scope: Scope, origins: frozenset[str]) -> str | None:
    """Return the only `Origin` of a request if it is one of these."""
    sent = header_values(scope, b"origin")
    return sent[0] if len(sent) == 1 and sent[0] in origins else None


def _is_from_another_site(scope: Scope, host: str) -> bool:
    """Whether the browser says that another site sent the request.

    A link on another site may open a page in a tab: that site cannot read it.
    """
    for origin in header_values(scope, b"origin"):
        if _netloc(origin) != host.lower():
            return True
    sites = set(header_values(scope, b"sec-fetch-site"))
    return not sites <= {"same-origin", "none"} and not is_navigation(scope)


def _is_marked_cross_site(scope: Scope) -> bool:
    return "cross-site" in header_values(scope, b"sec-fetch-site")


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_header(scope: Scope) -> str | None:
    """Return the only Host header; None if there is none, more than one, or it is malformed."""
    hosts = header_values(scope, b"host")
    if len(hosts) != 1 or not _HOST_HEADER.fullmatch(hosts[0]):
        return None
    return hosts[0]


def _host_name(host: str) -> str:
    """Return the name or address of a Host header, without port and final dot."""
    match = _HOST_HEADER.fullmatch(host)
    return match["name"].removesuffix(".") if match else ""


def _cookie_name(host: str) -> str:
    """Return the name of the cookie: one for each port, since the ports of a host share cookies.

    The port is the one that the browser sees, which a forwarded port changes.
    """
    match = _HOST_HEADER.fullmatch(host)
    port = match["port"] if match else None
    return f"archqa_token_{port or _DEFAULT_PORT}"


def _url_without_token(scope: Scope) -> str:
    """Return path and query to go on with; never the address of another host."""
    path = "/" + quote(scope["path"].lstrip("/\\"))
    query = _query_without_token(scope["query_string"].decode("latin-1"))
    return f"{path}?{query}" if query else path


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
