"""Access tokens for a FHIR server: fixed, or fetched by a secret or a signature and renewed in time.

Sources: SMART App Launch 2.2, "Backend Services", "Client Authentication: Asymmetric" and
".well-known/smart-configuration"; RFC 6749 section 4.4; RFC 7515 (signatures), 7517 (keys), 7523
section 2.2. Signatures need the extra `smart`.
"""

import base64
import json
import math
import os
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import httpx2

from archqa.errors import (
    AuthenticationFailed,
    CallerError,
    InputError,
    MissingExtra,
    ServerUnavailable,
)
from archqa.fhir.client.exchange import Reply, TransientFailure, exchange
from archqa.fhir.record import FhirError
from archqa.fhir.values.names import names_in
from archqa.safety.files import storage_errors
from archqa.safety.server_urls import check_encrypted

_RENEWAL_MARGIN = 30.0
"""Seconds before its expiry at which a token is renewed."""

_MAX_REPLY_BYTES = 2**20
"""Bytes of a token service's reply."""

_DEFAULT_LIFETIME = 300
"""Seconds that a token is valid if the token service does not say."""

_MAX_LIFETIME = 24 * 3600
"""A token that is valid for longer is renewed all the same."""

DEFAULT_SCOPE = "system/*.rs"
"""Read and search everything (SMART App Launch 2); servers of version 1 know `system/*.read`."""

_TOKEN = re.compile(r"[!-~]{1,65536}")
"""A token: visible ASCII (RFC 6749, appendix A.12)."""

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_LIFETIME = 240
"""Seconds; the guide allows five minutes, and clocks differ."""


_MAX_KEY_BYTES = 2**20
"""Bytes of a key file."""

_ALGORITHMS = {"RSA": "RS384", "EC": "ES384"}
"""Type of a key (JWK's `kty`), and the algorithm that the guide has for it."""

_CURVE = "P-384"

_FIX = "It must hold one private key, RSA or EC on curve P-384, as PEM without passphrase or as JWK."


@dataclass(frozen=True)
class SigningKey:
    """A private key; servers know its public half by `key_id`. It is never printed."""

    algorithm: str
    key_id: str | None
    _key: Any = field(repr=False)

    def sign(self, claims: dict[str, Any]) -> str:
        """Return the claims as a signed JWT. Its header names the key, if it has a name."""
        import jwt

        headers = {"kid": self.key_id} if self.key_id else None
        return jwt.encode(
            claims,
            self._key,
            algorithm=self.algorithm,
            headers=headers,
        )


def read_signing_key(path: Path, key_id: str | None = None) -> SigningKey:
    """Return the key in a file; of a set of keys the one with this id, else the only private one.

    Raises `CallerError` if others may read the file, `InputError` if it holds no such key,
    `StorageError`, and `MissingExtra` without PyJWT and cryptography.
    """
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "Signing for SMART backend services (PyJWT)", "smart"
        ) from None
    with storage_errors(path):
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise CallerError(
                f"Others may read the private key {path}.\nRun: chmod 600 {path}"
            )
        with path.open("rb") as file:
            content = file.read(_MAX_KEY_BYTES)
    if content.lstrip()[:1] == b"{":
        return _from_jwk(path, content, key_id)
    return _from_pem(path, content, key_id)


def _from_pem(path: Path, content: bytes, key_id: str | None) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise InputError(path, [": the key needs a passphrase."], _FIX) from None
    except Exception:  # The messages of cryptography may quote the file.
        raise InputError(path, [": is no private key."], _FIX) from None
    if isinstance(key, RSAPrivateKey):
        return SigningKey("RS384", key_id, key)
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name == "secp384r1":
        return SigningKey("ES384", key_id, key)
    raise InputError(path, [": the key is of another kind."], _FIX)


def _from_jwk(path: Path, content: bytes, key_id: str | None) -> SigningKey:
    """Return the key of a JWK, also of one in a set (`keys`)."""
    import jwt

    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(path, [": is neither PEM nor JSON."], _FIX) from None
    listed = document.get("keys", [document])
    keys = listed if isinstance(listed, list) else []
    private = [key for key in keys if isinstance(key, dict) and "d" in key]
    named = [key for key in private if key_id is not None and key.get("kid") == key_id]
    chosen = named or private
    if len(chosen) != 1:
        count = (
            "has no private key" if not chosen else f"has {len(chosen)} private keys"
        )
        raise InputError(
            path, [f": {count}."], f"{_FIX} Of several, ARCHQA_FHIR_KEY_ID names one."
        )
    (members,) = chosen
    algorithm = _ALGORITHMS.get(str(members.get("kty")))
    if algorithm is None or members.get("crv", _CURVE) != _CURVE:
        raise InputError(path, [": the key is of another kind."], _FIX)
    try:
        key = jwt.PyJWK(members, algorithm).key
    except Exception:  # The messages of PyJWT may quote the file.
        raise InputError(path, [": is no private key."], _FIX) from None
    own_id = members.get("kid")
    return SigningKey(
        algorithm, key_id or (own_id if isinstance(own_id, str) else None), key
    )


@dataclass(frozen=True)
class FixedToken:
    """A bearer token that the caller renews, or `user:password`. Its text is never printed."""

    text: str = field(repr=False)

    def authorization(self, client: httpx2.Client) -> str:
        """Return the header. A bearer token has no colon (RFC 6750, 2.1), a user's name and
        password do (RFC 7617, 2). Raises `CallerError` for a text that no header can hold.
        """
        try:
            if ":" in self.text:
                return f"Basic {base64.b64encode(self.text.encode()).decode()}"
            return _bearer(self.text)
        except ValueError:
            raise CallerError(
                "The token for the FHIR server has characters that no token has.\n"
                "Check ARCHQA_FHIR_TOKEN."
            ) from None


def _bearer(token: object) -> str:
    """Return the header of a token. Raises `ValueError` for what no header can hold."""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError("no token")
    return f"Bearer {token}"


@dataclass
class _RenewedToken(ABC):
    """A token that a token service grants, kept until shortly before it expires.

    Without `token_url`, the server's SMART configuration names the token service. Plain http to
    another machine is refused unless `allow_plain_http`: the secret would travel with it.
    """

    _advice: ClassVar[str]
    """What to check where the client is refused."""

    client_id: str
    scope: str = field(default=DEFAULT_SCOPE, kw_only=True)
    token_url: str | None = field(default=None, kw_only=True)
    allow_plain_http: bool = field(default=False, kw_only=True)
    _token: str = field(default="", repr=False, kw_only=True)
    _renew_at: float = field(default=0.0, repr=False, kw_only=True)
    _lock: threading.Lock = field(
        default_factory=threading.Lock, repr=False, kw_only=True
    )

    @abstractmethod
    def _proof(self, token_url: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the fields of the form and the options of the request that prove who asks."""

    def authorization(self, client: httpx2.Client) -> str:
        """Return the header. Raises as `token` does."""
        return f"Bearer {self.token(client)}"

    def token(self, client: httpx2.Client) -> str:
        """Return a valid token. Raises `AuthenticationFailed`, `ServerUnavailable`, `Redirected`,
        and `CallerError` for a token service in plain http.
        """
        with self._lock:
            if time.monotonic() < self._renew_at:
                return self._token
            try:
                content = self._request(client)
                token = content["access_token"]
                _bearer(token)
                lifetime = float(content.get("expires_in", _DEFAULT_LIFETIME))
                # What is no number, such as "nan", is not between the two.
                if not 0 <= lifetime < math.inf:
                    raise ValueError("no lifetime")
                lifetime = min(lifetime, _MAX_LIFETIME)
                self._token = token
                self._renew_at = time.monotonic() + lifetime - _RENEWAL_MARGIN
            except (
                TransientFailure,
                httpx2.InvalidURL,
                FhirError,
                ValueError,
                KeyError,
                TypeError,
            ) as error:
                has_reason = isinstance(error, FhirError | TransientFailure)
                reason = str(error) if has_reason else type(error).__name__
                cause = f"No token could be fetched for the FHIR server ({reason})."
                raise ServerUnavailable(f"{cause}\nCheck the address.") from None
            return self._token

    def _request(self, client: httpx2.Client) -> Any:
        url = self.token_url
        if url is None:
            request = client.build_request("GET", ".well-known/smart-configuration")
            reply = exchange(client, request, _MAX_REPLY_BYTES)
            url = str(reply.json()["token_endpoint"])
        url = str(client.build_request("POST", url).url)
        check_encrypted(url, allow_plain_http=self.allow_plain_http)
        proof, options = self._proof(url)
        form = {
            "grant_type": "client_credentials",
            "scope": self.scope,
            **proof,
        }
        request = client.build_request("POST", url, data=form)
        request.headers["accept"] = "application/json"
        reply = exchange(
            client,
            request,
            _MAX_REPLY_BYTES,
            **options,
        )
        if reply.status in {400, 401, 403}:
            refusal = f"The FHIR server's token service refuses the client{_error_code(reply)}."
            raise AuthenticationFailed(f"{refusal}\n{self._advice}")
        if reply.status >= 300:
            raise FhirError(f"The token service answers HTTP {reply.status}.")
        return reply.json()


@dataclass
class ClientCredentials(_RenewedToken):
    """Fetch tokens with a client id and secret."""

    _advice = "Check its id and secret."

    secret: str = field(repr=False)

    def _proof(self, token_url: str) -> tuple[dict[str, str], dict[str, Any]]:
        return {}, {"auth": (self.client_id, self.secret)}


@dataclass
class BackendService(_RenewedToken):
    """Fetch tokens with assertions that the client signs with its private key (extra `smart`)."""

    _advice = "Check its id, its scope, and that the public key is registered there."

    key: SigningKey = field(repr=False)

    def _proof(self, token_url: str) -> tuple[dict[str, str], dict[str, Any]]:
        now = int(time.time())
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": token_url,
            "exp": now + _ASSERTION_LIFETIME,
            "iat": now,
            "jti": secrets.token_urlsafe(24),
        }
        form = {
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": self.key.sign(claims),
        }
        return form, {}


def _error_code(reply: Reply) -> str:
    """Return the error of a refusal in brackets, if it is one of OAuth's (RFC 6749, 5.2)."""
    try:
        code = reply.json()["error"]
    except (FhirError, KeyError, TypeError):
        return ""
    return f" ({code})" if code in names_in("oauth errors") else ""
