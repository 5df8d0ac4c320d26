"""Access tokens for a FHIR server: fixed, or fetched by client credentials and renewed in time.

Source: SMART App Launch 2.2, "Backend Services" and ".well-known/smart-configuration"; RFC 6749
section 4.4.
"""

import base64
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2

from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.fhir.client.exchange import exchange
from archqa.fhir.outcome import FhirError
from archqa.safety.base_urls import check_encrypted

_RENEWAL_MARGIN = 30.0
"""Seconds before its expiry at which a token is renewed."""

_MAX_REPLY_BYTES = 2**20
"""Bytes of a token service's reply."""

_DEFAULT_LIFETIME = 300
"""Seconds that a token is valid if the token service does not say."""


@dataclass(frozen=True)
class FixedToken:
    """A bearer token that the caller renews, or `user:password`. Its text is never printed."""

    text: str = field(repr=False)

    def authorization(self, client: httpx2.Client) -> str:
        """Return the header. A bearer token has no colon (RFC 6750, 2.1), a user's name and
        password do (RFC 7617, 2).
        """
        if ":" in self.text:
            return f"Basic {base64.b64encode(self.text.encode()).decode()}"
        return f"Bearer {self.text}"


@dataclass
class ClientCredentials:
    """Fetch tokens with a client id and secret.

    Without `token_url`, the server's SMART configuration names the token service. Plain http to
    another machine is refused unless `allow_plain_http`: the secret would travel with it.
    """

    client_id: str
    secret: str = field(repr=False)
    scope: str = "system/*.rs"
    token_url: str | None = None
    allow_plain_http: bool = False
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def authorization(self, client: httpx2.Client) -> str:
        """Return the header. Raises as `token` does."""
        return f"Bearer {self.token(client)}"

    def token(self, client: httpx2.Client) -> str:
        """Return a valid token. Raises `AuthenticationFailed`, `ServerUnavailable`, `Redirected`,
        and `CallerError` for a token service in plain http.
        """
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
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            FhirError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:
            cause = f"No token could be fetched for the FHIR server ({type(error).__name__})."
            raise ServerUnavailable(f"{cause}\nCheck the address.") from None

    def _request(self, client: httpx2.Client) -> Any:
        form = {"grant_type": "client_credentials", "scope": self.scope}
        request = client.build_request("POST", self._service_url(client), data=form)
        check_encrypted(str(request.url), allow_plain_http=self.allow_plain_http)
        reply = exchange(client, request, _MAX_REPLY_BYTES, auth=(self.client_id, self.secret))
        if reply.status_code in {400, 401, 403}:
            refusal = "The FHIR server's token service refuses the client."
            raise AuthenticationFailed(f"{refusal}\nCheck its id and secret.")
        return reply.raise_for_status().json()

    def _service_url(self, client: httpx2.Client) -> str:
        if self.token_url is not None:
            return self.token_url
        request = client.build_request("GET", ".well-known/smart-configuration")
        return str(exchange(client, request, _MAX_REPLY_BYTES).json()["token_endpoint"])
