"""Access tokens for a FHIR server: a fixed one, or one fetched by client credentials and renewed before it ends.

Source: SMART App Launch 2.2, "Backend Services" and ".well-known/smart-configuration"; RFC 6749 section 4.4.
"""

import threading
import time
from dataclasses import dataclass, field

import httpx2

from archqa.errors import AuthenticationFailed, ServerUnavailable

_EARLY = 30.0
"""Seconds before its end at which a token is renewed."""


@dataclass(frozen=True)
class FixedToken:
    """A bearer token that somebody else renews. Its text is never printed."""

    text: str = field(repr=False)

    def token(self, client: httpx2.Client) -> str:
        """The token."""
        return self.text


@dataclass
class ClientCredentials:
    """Fetches tokens with a client id and secret. `token_url` None: asked of the server's SMART configuration."""

    client_id: str
    secret: str = field(repr=False)
    scope: str = "system/*.rs"
    token_url: str | None = None
    _token: str = field(default="", repr=False)
    _ends: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self, client: httpx2.Client) -> str:
        """A token that is still good. Raises `AuthenticationFailed`, `ServerUnavailable`."""
        with self._lock:
            if time.monotonic() >= self._ends:
                self._fetch(client)
            return self._token

    def _fetch(self, client: httpx2.Client) -> None:
        try:
            url = (
                self.token_url
                or client.get(".well-known/smart-configuration").json()["token_endpoint"]
            )
            form = {"grant_type": "client_credentials", "scope": self.scope}
            reply = client.post(url, data=form, auth=(self.client_id, self.secret))
            if reply.status_code in {400, 401, 403}:
                raise AuthenticationFailed(
                    "The FHIR server's token service refuses the client.\nCheck its id and secret."
                )
            content = reply.raise_for_status().json()
            self._token = str(content["access_token"])
            self._ends = time.monotonic() + float(content.get("expires_in", 300)) - _EARLY
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            text = f"No token could be fetched for the FHIR server ({type(error).__name__}).\nCheck the address."
            raise ServerUnavailable(text) from None
