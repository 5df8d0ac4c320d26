"""Access tokens for a FHIR server: fixed, or fetched by client credentials and renewed in time.

Source: SMART App Launch 2.2, "Backend Services" and ".well-known/smart-configuration"; RFC 6749
section 4.4.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2

from archqa.errors import AuthenticationFailed, ServerUnavailable

_RENEWAL_MARGIN = 30.0
"""Seconds before its expiry at which a token is renewed."""

_DEFAULT_LIFETIME = 300
"""Seconds that a token is valid if the token service does not say."""


@dataclass(frozen=True)
class FixedToken:
    """A bearer token that the caller renews. Its text is never printed."""

    text: str = field(repr=False)

    def token(self, client: httpx2.Client) -> str:
        """Return the token."""
        return self.text


@dataclass
class ClientCredentials:
    """Fetch tokens with a client id and secret.

    Without `token_url`, the server's SMART configuration names the token service.
    """

    client_id: str
    secret: str = field(repr=False)
    scope: str = "system/*.rs"
    token_url: str | None = None
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self, client: httpx2.Client) -> str:
        """Return a valid token. Raises `AuthenticationFailed`, `ServerUnavailable`."""
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._fetch(client)
            return self._token

    def _fetch(self, client: httpx2.Client) -> None:
        try:
            content = self._request(client)
            self._token = str(content["access_token"])
            lifetime = float(content.get("expires_in", _DEFAULT_LIFETIME))
            self._renew_at = time.monotonic() + lifetime - _RENEWAL_MARGIN
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            cause = f"No token could be fetched for the FHIR server ({type(error).__name__})."
            raise ServerUnavailable(f"{cause}\nCheck the address.") from None

    def _request(self, client: httpx2.Client) -> Any:
        url = self.token_url
        if url is None:
            url = client.get(".well-known/smart-configuration").json()["token_endpoint"]
        form = {"grant_type": "client_credentials", "scope": self.scope}
        reply = client.post(url, data=form, auth=(self.client_id, self.secret))
        if reply.status_code in {400, 401, 403}:
            refusal = "The FHIR server's token service refuses the client."
            raise AuthenticationFailed(f"{refusal}\nCheck its id and secret.")
        return reply.raise_for_status().json()
