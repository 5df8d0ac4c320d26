"""Access tokens for a FHIR server: fixed, or fetched by a secret or a signature and renewed in time.

Source: SMART App Launch 2.2, "Backend Services", "Client Authentication: Asymmetric" and
".well-known/smart-configuration"; RFC 6749 section 4.4; RFC 7523 section 2.2.
"""

import base64
import secrets
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx2

from archqa.errors import AuthenticationFailed, ServerUnavailable
from archqa.fhir.client.exchange import exchange
from archqa.fhir.client.signing_key import SigningKey
from archqa.fhir.outcome import FhirError
from archqa.safety.server_urls import check_encrypted

_RENEWAL_MARGIN = 30.0
"""Seconds before its expiry at which a token is renewed."""

_MAX_REPLY_BYTES = 2**20
"""Bytes of a token service's reply."""

_DEFAULT_LIFETIME = 300
"""Seconds that a token is valid if the token service does not say."""

DEFAULT_SCOPE = "system/*.rs"
"""Read and search everything (SMART App Launch 2); servers of version 1 know `system/*.read`."""

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_LIFETIME = 240
"""Seconds; the guide allows five minutes, and clocks differ."""

_OAUTH_ERRORS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)


class _Proof(NamedTuple):
    """Fields of the form, and options of the request, that prove who the client is."""

    form: dict[str, str]
    options: dict[str, Any]


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
class _RenewedToken(ABC):
    """A token that a token service grants, kept until shortly before it expires.

    Without `token_url`, the server's SMART configuration names the token service. Plain http to
    another machine is refused unless `allow_plain_http`: the secret would travel with it.
    """

    client_id: str
    scope: str = field(default=DEFAULT_SCOPE, kw_only=True)
    token_url: str | None = field(default=None, kw_only=True)
    allow_plain_http: bool = field(default=False, kw_only=True)
    _token: str = field(default="", repr=False, kw_only=True)
    _renew_at: float = field(default=0.0, repr=False, kw_only=True)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, kw_only=True)

    @abstractmethod
    def _proof(self, token_url: str) -> _Proof:
        """Return what proves to a token service who asks."""

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
        url = self._service_url(client)
        check_encrypted(url, allow_plain_http=self.allow_plain_http)
        proof = self._proof(url)
        form = {"grant_type": "client_credentials", "scope": self.scope, **proof.form}
        request = client.build_request("POST", url, data=form)
        request.headers["accept"] = "application/json"
        reply = exchange(client, request, _MAX_REPLY_BYTES, **proof.options)
        if reply.status_code in {400, 401, 403}:
            code = _error_code(reply)
            refusal = f"The FHIR server's token service refuses the client{code}."
            raise AuthenticationFailed(f"{refusal}\n{self._advice()}")
        return reply.raise_for_status().json()

    def _advice(self) -> str:
        return "Check its id and secret."

    def _service_url(self, client: httpx2.Client) -> str:
        """Return the address of the token service, in full."""
        url = self.token_url
        if url is None:
            request = client.build_request("GET", ".well-known/smart-configuration")
            reply = exchange(client, request, _MAX_REPLY_BYTES)
            url = str(reply.json()["token_endpoint"])
        return str(client.build_request("POST", url).url)


@dataclass
class ClientCredentials(_RenewedToken):
    """Fetch tokens with a client id and secret."""

    secret: str = field(repr=False)

    def _proof(self, token_url: str) -> _Proof:
        return _Proof({}, {"auth": (self.client_id, self.secret)})


@dataclass
class BackendService(_RenewedToken):
    """Fetch tokens with assertions that the client signs with its private key (extra `smart`)."""

    key: SigningKey = field(repr=False)

    def _proof(self, token_url: str) -> _Proof:
        now = int(time.time())
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": token_url,
            "exp": now + _ASSERTION_LIFETIME,
            "iat": now,
            "jti": secrets.token_urlsafe(24),
        }
        form = {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": self.key.sign(claims)}
        return _Proof(form, {})

    def _advice(self) -> str:
        return "Check its id, its scope, and that the public key is registered there."


def _error_code(reply: httpx2.Response) -> str:
    """Return the error of a refusal in brackets, if it is one of OAuth's (RFC 6749, 5.2)."""
    try:
        code = reply.json()["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    is_known = isinstance(code, str) and code in _OAUTH_ERRORS
    return f" ({code})" if is_known else ""
