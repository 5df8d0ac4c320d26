"""Which base URLs are taken: none that holds a secret, and no plain http across a network."""

import ipaddress
import re
from urllib.parse import parse_qsl, urlsplit

from archqa.errors import CallerError
from archqa.safety.server_urls import is_loopback_url, server_identity

_SCHEMES = frozenset({"http", "https"})

_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::[0-9]*)?")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")

_MAX_HOST_CHARACTERS = 300
"""A host name has at most 253 (RFC 1035, 2.3.4)."""

_MODEL_SERVER_PARAMETERS = frozenset({"api-version", "deployment"})
"""Query parameters of Azure OpenAI, which are no secrets."""


def is_server_url(location: str) -> bool:
    """Whether a record's location is the address of a server, and no path."""
    return location.strip().lower().startswith(("http://", "https://"))


def model_server_problem(url: str) -> str:
    """Why this cannot be a model server's base URL, without quoting it; empty if it can."""
    return _problem(url, _MODEL_SERVER_PARAMETERS, "OPENAI_API_KEY (or the key_variable)")


def fhir_server_problem(url: str) -> str:
    """Why this cannot be a FHIR server's base URL, without quoting it; empty if it can."""
    return _problem(url, frozenset(), "ARCHQA_FHIR_TOKEN, also as user:password")


def check_encrypted(url: str, *, allow_plain_http: bool) -> None:
    """Raise `CallerError` for plain http to another machine, unless it is allowed."""
    if allow_plain_http or not url.lower().startswith("http:") or is_loopback_url(url):
        return
    host = host_of(url)
    raise CallerError(
        f"Plain http to {host} is refused: whoever is on the way reads record text and keys.\n"
        "Name its https address, or allow it with --allow-plain-http (setting allow_plain_http)."
    )


def host_of(url: str) -> str:
    """Scheme, host and port: what a message may show of any URL, also of one that a server sent."""
    try:
        parts = urlsplit(server_identity(url))
    except ValueError:
        return "an invalid address"
    host = f"{parts.scheme}://{parts.netloc}"
    is_plain = host.isascii() and host.isprintable() and len(host) <= _MAX_HOST_CHARACTERS
    return host if is_plain else "an invalid address"


def _problem(url: str, parameters: frozenset[str], place_of_secrets: str) -> str:
    try:
        parts = urlsplit(url)
        has_host = _is_host(parts.netloc) and (parts.port is None or parts.port > 0)
    except ValueError:
        return "is not a URL"
    is_plain = url.isprintable() and not {" ", "\\"}.intersection(url)
    if not is_plain or not has_host or parts.scheme not in _SCHEMES:
        return "is not a URL"
    if "@" in parts.netloc:
        return f"holds a user name or a password; put them into {place_of_secrets}"
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if names - parameters or (parts.query and not names):
        return f"holds query parameters, which may be secrets; put a key into {place_of_secrets}"
    if "#" in url:
        return "holds a fragment (#), which no server receives"
    return ""


def _is_host(netloc: str) -> bool:
    """Whether a host and its port can be asked. Raises `ValueError` for an address that none has,
    or a name that is none in IDNA.
    """
    host = _HOST.fullmatch(netloc.rpartition("@")[2])
    if host is None:
        return False
    if host["ipv6"]:
        ipaddress.IPv6Address(host["ipv6"])
    elif _IPV4.fullmatch(host["name"]):
        ipaddress.IPv4Address(host["name"])
    elif not host["name"].isascii():
        import idna  # Its tables are large, and few names need them.

        idna.encode(host["name"].lower())
    return True
