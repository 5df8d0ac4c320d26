"""A client that signs with its private key gets tokens from a service that verifies the signature.

Source: SMART App Launch 2.2, "Client Authentication: Asymmetric" and "Backend Services".
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from archqa.errors import AuthenticationFailed, CallerError, InputError, MissingExtra
from archqa.fhir import FhirClient, connect
from archqa.fhir.client import smart
from archqa.fhir.client.smart import read_signing_key
from tests.fhir.test_fhir_commands import run
from tests.safety.raw_server import RawServer, Request, Response, json_response

jwt = pytest.importorskip("jwt", reason="the extra `smart` is not installed")
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: E402

RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP384R1())
BUNDLE = json.dumps({"resourceType": "Bundle", "total": 0})
VARIABLES = ("TOKEN", "CLIENT_ID", "PRIVATE_KEY", "KEY_ID", "SCOPE", "TOKEN_URL")


def pem(key: Any, passphrase: bytes | None = None) -> bytes:
    encryption: Any = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase)
    form = serialization.PrivateFormat.PKCS8
    return bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))


def jwk(key: Any, **members: Any) -> dict[str, Any]:
    is_rsa = isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey)
    algorithm: Any = (
        jwt.algorithms.RSAAlgorithm if is_rsa else jwt.algorithms.ECAlgorithm
    )
    return {**json.loads(algorithm.to_jwk(key)), **members}


def key_file(folder: Path, content: bytes | dict[str, Any]) -> Path:
    path = folder / "key"
    path.write_bytes(
        content if isinstance(content, bytes) else json.dumps(content).encode()
    )
    path.chmod(0o600)
    return path


class Hospital:
    """A FHIR server and its token service, which verifies what clients sign."""

    def __init__(self) -> None:
        self.public_key: Any = RSA_KEY.public_key()
        self.algorithm = "RS384"
        self.lifetime = 300
        self.forms: list[dict[str, str]] = []
        self.heads: list[dict[str, Any]] = []
        self.claims: list[dict[str, Any]] = []
        self.server = RawServer(self.answer)

    @property
    def base(self) -> str:
        return f"{self.server.url}/fhir"

    def answer(self, request: Request) -> Response:
        if request.target == "/fhir/.well-known/smart-configuration":
            return json_response(
                json.dumps({"token_endpoint": f"{self.server.url}/token"})
            )
        if request.target == "/token":
            return self.grant(request)
        granted = f"Bearer granted-{len(self.claims)}"
        if request.headers.get("authorization") != granted:
            return Response(401)
        return json_response(BUNDLE)

    def grant(self, request: Request) -> Response:
        fields = parse_qs(request.body.decode())
        form = {name: values[0] for name, values in fields.items()}
        assertion = form.pop("client_assertion")
        try:
            claims = jwt.decode(
                assertion,
                self.public_key,
                algorithms=[self.algorithm],
                audience=f"{self.server.url}/token",
                issuer="archqa-client",
                options={"require": ["iss", "sub", "aud", "exp", "jti"]},
            )
        except jwt.PyJWTError:
            return Response(400, (b'{"error": "invalid_client"}',))
        self.forms.append(form)
        self.heads.append(jwt.get_unverified_header(assertion))
        self.claims.append(claims)
        token = f"granted-{len(self.claims)}"
        body = {
            "access_token": token,
            "token_type": "bearer",
            "expires_in": self.lifetime,
        }
        return json_response(json.dumps(body))


@pytest.fixture
def hospital() -> Iterator[Hospital]:
    hospital = Hospital()
    with hospital.server:
        yield hospital


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"ARCHQA_FHIR_{name}", raising=False)


def use_key(monkeypatch: pytest.MonkeyPatch, path: Path, **more: str) -> None:
    values = {"CLIENT_ID": "archqa-client", "PRIVATE_KEY": str(path), **more}
    for name, value in values.items():
        monkeypatch.setenv(f"ARCHQA_FHIR_{name}", value)


@pytest.mark.parametrize(
    ("content", "key", "algorithm", "key_id"),
    [
        (pem(RSA_KEY), RSA_KEY, "RS384", None),
        (pem(EC_KEY), EC_KEY, "ES384", None),
        (jwk(RSA_KEY, kid="r1"), RSA_KEY, "RS384", "r1"),
        (jwk(EC_KEY, kid="e1", alg="ES384"), EC_KEY, "ES384", "e1"),
        (
            {"keys": [jwk(RSA_KEY.public_key()), jwk(EC_KEY, kid="e1")]},
            EC_KEY,
            "ES384",
            "e1",
        ),
    ],
    ids=["RSA in PEM", "EC in PEM", "RSA as JWK", "EC as JWK", "a set of keys"],
)
def test_a_signature_that_the_service_verifies_gets_a_token(
    hospital: Hospital,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | dict[str, Any],
    key: Any,
    algorithm: str,
    key_id: str | None,
) -> None:
    hospital.public_key, hospital.algorithm = key.public_key(), algorithm
    use_key(monkeypatch, key_file(tmp_path, content))
    with connect(hospital.base) as client:
        assert client.search("Patient").total == 0
        assert client.search("Patient").total == 0
    (claims,) = hospital.claims
    assert claims["iss"] == claims["sub"] == "archqa-client"
    assert 0 < claims["exp"] - time.time() <= 300
    assert len(claims["jti"]) >= 20
    assert hospital.heads == [
        {"alg": algorithm, "typ": "JWT", **({"kid": key_id} if key_id else {})}
    ]
    assert hospital.forms == [
        {
            "grant_type": "client_credentials",
            "scope": "system/*.rs",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
    ]


def test_key_id_scope_and_service_may_be_set(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {
        "KEY_ID": "k7",
        "SCOPE": "system/*.read",
        "TOKEN_URL": f"{hospital.server.url}/token",
    }
    use_key(monkeypatch, key_file(tmp_path, pem(RSA_KEY)), **more)
    run("search", "Patient", "--record", hospital.base)
    assert hospital.heads[0]["kid"] == "k7"
    assert hospital.forms[0]["scope"] == "system/*.read"
    assert not [r for r in hospital.server.requests if "well-known" in r.target]


def test_each_token_is_asked_for_with_a_new_signature_before_the_old_one_ends(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(smart.time, "monotonic", lambda: clock[0])
    use_key(monkeypatch, key_file(tmp_path, pem(RSA_KEY)))
    with connect(hospital.base) as client:
        for moment in (1000.0, 1269.0, 1271.0):
            clock[0] = moment
            client.search("Patient")
    assert len(hospital.claims) == 2
    assert len({claims["jti"] for claims in hospital.claims}) == 2


def test_a_key_that_the_service_does_not_know_is_refused_with_its_reason(
    hospital: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hospital.public_key = rsa.generate_private_key(65537, 2048).public_key()
    use_key(monkeypatch, key_file(tmp_path, pem(RSA_KEY)))
    with (
        connect(hospital.base) as client,
        pytest.raises(AuthenticationFailed) as refusal,
    ):
        client.search("Patient")
    assert "(invalid_client)" in str(refusal.value)
    assert "public key" in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (pem(RSA_KEY, b"secret"), "passphrase"),
        (b"-----BEGIN CERTIFICATE-----\nx", "no private key"),
        (b"", "no private key"),
        (b"{", "neither PEM nor JSON"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "another kind"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "another kind"),
        (jwk(ec.generate_private_key(ec.SECP256R1())), "another kind"),
        (jwk(RSA_KEY.public_key()), "no private key"),
        ({"kty": "RSA", "d": "x"}, "no private key"),
        ({"kty": "oct", "k": "x", "d": "x"}, "another kind"),
        ({"keys": [jwk(RSA_KEY, kid="a"), jwk(EC_KEY, kid="b")]}, "has 2 private keys"),
        ({"keys": 1}, "no private key"),
    ],
    ids=range(12),
)
def test_a_file_without_a_usable_key_is_an_error_that_quotes_nothing_of_it(
    tmp_path: Path, content: bytes | dict[str, Any], problem: str
) -> None:
    path = key_file(tmp_path, content)
    with pytest.raises(InputError, match=problem) as error:
        read_signing_key(path)
    assert "PRIVATE KEY" not in str(error.value)
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_of_several_keys_the_named_one_signs(tmp_path: Path) -> None:
    path = key_file(tmp_path, {"keys": [jwk(RSA_KEY, kid="a"), jwk(EC_KEY, kid="b")]})
    assert read_signing_key(path, "b").algorithm == "ES384"
    assert read_signing_key(path, "a").algorithm == "RS384"


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path, pem(RSA_KEY))
    path.chmod(0o640)
    with pytest.raises(CallerError, match="chmod 600"):
        read_signing_key(path)


def test_variables_that_contradict_each_other_or_lack_one_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_key(monkeypatch, key_file(tmp_path, pem(RSA_KEY)), TOKEN="secret")
    with pytest.raises(CallerError, match="contradict"):
        connect("https://far.example/fhir")
    monkeypatch.delenv("ARCHQA_FHIR_TOKEN")
    monkeypatch.delenv("ARCHQA_FHIR_CLIENT_ID")
    with pytest.raises(CallerError, match="Set both"):
        connect("https://far.example/fhir")


def test_neither_key_nor_token_is_printed(tmp_path: Path) -> None:
    key = read_signing_key(key_file(tmp_path, pem(RSA_KEY)), "k1")
    service = smart.BackendService("me", key)
    service._token = "granted"
    client = FhirClient("https://far.example/fhir", token=service)
    shown = f"{key!r} {service!r} {vars(client)!r}"
    assert "granted" not in shown
    assert "RSAPrivateKey" not in shown


def test_a_token_service_in_plain_http_across_the_network_is_refused(
    tmp_path: Path,
) -> None:
    key = read_signing_key(key_file(tmp_path, pem(RSA_KEY)))
    service = smart.BackendService("me", key, token_url="http://auth.example/token")
    with (
        FhirClient("https://far.example/fhir", token=service) as client,
        pytest.raises(CallerError, match="Plain http"),
    ):
        client.search("Patient")


def test_without_the_library_one_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(MissingExtra, match=r"archqa\[smart\]"):
        read_signing_key(key_file(tmp_path, pem(RSA_KEY)))
