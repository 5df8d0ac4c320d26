"""CORS: which other sites' pages a browser may let read a local server. By default none.

Origins are exact; cookies of other sites are never taken, so that a page needs the token itself.
Source: W3C Fetch, section 3.2.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from archqa.errors import CallerError
from archqa.safety.local_access import Headers, Scope, allowed_origin, header_values

_ORIGIN = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_ALLOWED_HEADERS = (
    b"Accept, Authorization, Content-Encoding, Content-Type, If-Match, If-Modified-Since,"
    b" If-None-Match, Prefer"
)
_EXPOSED_HEADERS = (
    b"Allow, ETag, Last-Modified, Link, Location, Preference-Applied, Retry-After, Warning"
)
_ALLOWED_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_MAX_AGE = b"600"
"""Seconds for which a browser need not ask again."""


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
        return scope["method"] == "OPTIONS" and is_asked and self._origin(scope) is not None

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
        origin = self._origin(scope)
        if origin is None:
            return (varies,)
        return (
            varies,
            (b"access-control-allow-origin", origin.encode()),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
        )

    def _origin(self, scope: Scope) -> str | None:
        return allowed_origin(scope, self.origins)
