"""The private key of a client, which signs what it says of itself (extra `smart`).

Sources: SMART App Launch 2.2, "Client Authentication: Asymmetric"; RFC 7515 (signatures), 7517 (keys).
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archqa.errors import CallerError, InputError, MissingExtra
from archqa.safety.files import storage_errors

_MAX_BYTES = 2**20
"""Bytes of a key file."""

_ALGORITHMS = {"RSA": "RS384", "EC": "ES384"}
"""Type of a key (JWK's `kty`), and the algorithm that the guide has for it."""

_CURVE = "P-384"

_FIX = (
    "It must hold one private key, RSA or EC on curve P-384, as PEM without passphrase or as JWK."
)


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
        return jwt.encode(claims, self._key, algorithm=self.algorithm, headers=headers)


def read_signing_key(path: Path, key_id: str | None = None) -> SigningKey:
    """Return the key in a file; of a set of keys the one with this id, else the only private one.

    Raises `CallerError` if others may read the file, `InputError` if it holds no such key,
    `StorageError`, and `MissingExtra` without PyJWT and cryptography.
    """
    _require_jwt()
    with storage_errors(path):
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise CallerError(f"Others may read the private key {path}.\nRun: chmod 600 {path}")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    if content.lstrip()[:1] == b"{":
        return _from_jwk(path, content, key_id)
    return _from_pem(path, content, key_id)


def _require_jwt() -> None:
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise MissingExtra("Signing for SMART backend services (PyJWT)", "smart") from None


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
    import jwt

    members = _private_jwk(path, content, key_id)
    algorithm = _ALGORITHMS.get(str(members.get("kty")))
    if algorithm is None or members.get("crv", _CURVE) != _CURVE:
        raise InputError(path, [": the key is of another kind."], _FIX)
    try:
        key = jwt.PyJWK(members, algorithm).key
    except Exception:  # The messages of PyJWT may quote the file.
        raise InputError(path, [": is no private key."], _FIX) from None
    own_id = members.get("kid")
    return SigningKey(algorithm, key_id or (own_id if isinstance(own_id, str) else None), key)


def _private_jwk(path: Path, content: bytes, key_id: str | None) -> dict[str, Any]:
    """Return the members of the key, also of one in a set (`keys`)."""
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
        count = "has no private key" if not chosen else f"has {len(chosen)} private keys"
        fix = f"{_FIX} Of several, ARCHQA_FHIR_KEY_ID names one."
        raise InputError(path, [f": {count}."], fix)
    return chosen[0]
