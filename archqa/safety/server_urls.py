"""URLs of servers: what one says of its server without the secrets in it, and which are accepted:
none that holds a secret, and no plain http across a network.
"""

import ipaddress
import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from archqa.errors import CallerError

OPENAI_BASE_URL = "https://api.openai.com/v1"

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://\S+")

_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::[0-9]*)?")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")

_MAX_HOST_CHARACTERS = 300
"""A host name has at most 253 (RFC 1035, 2.3.4)."""

DEFAULT_PORTS = {"http": 80, "https": 443}

AZURE_PARAMETERS = frozenset({"api-version", "deployment"})
"""Query parameters that change what answers and are no secrets (Azure OpenAI REST reference)."""


def server_identity(base_url: str | None) -> str:
    """Scheme, host, port and path of a base URL in one spelling; None stands for api.openai.com.

    Two spellings of one server are equal, two servers differ, and no secret is in it.

    Scheme and host are lower case; the scheme's default port, a trailing slash, user name, password
    and fragment are dropped. Azure's deployment is part of the path, or is kept as a query
    parameter like its `api-version`.
    """
    parts = urlsplit(base_url or OPENAI_BASE_URL)
    scheme = parts.scheme.lower()
    host_and_port = parts.netloc.rpartition("@")[2].lower().removesuffix(":")
    host_and_port = host_and_port.removesuffix(f":{DEFAULT_PORTS.get(scheme)}")
    identity = f"{scheme}://{host_and_port}{parts.path.rstrip('/')}"
    parameters = []
    for name, value in parse_qsl(parts.query):
        if name.lower() in AZURE_PARAMETERS:
            parameters.append((name.lower(), value))
    return f"{identity}?{urlencode(sorted(parameters))}" if parameters else identity


def host_of(url: str) -> str:
    """Scheme, host and port: what a message may show of any URL, also of one that a server sent."""
    try:
        parts = urlsplit(server_identity(url))
    except ValueError:
        return "an invalid address"
    host = f"{parts.scheme}://{parts.netloc}"
    is_plain = (
        host.isascii() and host.isprintable() and len(host) <= _MAX_HOST_CHARACTERS
    )
    return host if is_plain else "an invalid address"


def without_secrets(text: str) -> str:
    """A text without the user names, passwords and queries of URLs in it; others stay as written."""

    def identity_if_secret(url: re.Match[str]) -> str:
        if "@" not in url[0] and "?" not in url[0]:
            return url[0]
        try:
            return server_identity(url[0])
        except ValueError:
            return "(an invalid address)"

    return _URL.sub(identity_if_secret, text)


def is_server_url(location: str) -> bool:
    """Whether a record's location is the address of a server, and no path."""
    return location.strip().lower().startswith(("http://", "https://"))


def is_loopback_url(url: str) -> bool:
    """Whether a URL names this machine: what is sent there crosses no network."""
    return is_loopback(urlsplit(url).hostname or "")


def is_loopback(host: str) -> bool:
    """Whether a host name or address, without its port, is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def proxy_for(url: str) -> str | None:
    """The HTTP proxy that the environment names for this URL (`https_proxy`, `http_proxy`, else
    `all_proxy`; `no_proxy`); none for this machine, since what is sent there must not leave it.

    Proxies of other kinds (SOCKS) and what is no URL are not used. It may hold a password: show its
    `server_identity` only.
    """
    from urllib.request import getproxies, proxy_bypass  # It imports TLS and e-mail.

    if is_loopback_url(url):
        return None
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all", "")
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        proxy_parts = urlsplit(proxy)
        has_host = proxy_parts.hostname and (
            proxy_parts.port is None or proxy_parts.port > 0
        )
    except ValueError:
        return None
    is_plain = proxy.isprintable() and " " not in proxy
    if not has_host or not is_plain or proxy_parts.scheme not in DEFAULT_PORTS:
        return None
    return None if proxy_bypass(parts.netloc) else proxy


def model_server_problem(url: str) -> str:
    """Why this cannot be a model server's base URL, without quoting it; empty if it can."""
    return _problem(url, AZURE_PARAMETERS, "OPENAI_API_KEY (or the key_variable)")


def fhir_server_problem(url: str) -> str:
    """Why this cannot be a FHIR server's base URL, without quoting it; empty if it can."""
    return _problem(url, frozenset(), "ARCHQA_FHIR_TOKEN, also as user:password")


def check_encrypted(url: str, *, allow_plain_http: bool) -> None:
    """Raise `CallerError` for plain http to another machine, unless it is allowed."""
    if allow_plain_http or not url.lower().startswith("http:") or is_loopback_url(url):
        return
    raise CallerError(
        f"Plain http to {host_of(url)} is refused: "
        "whoever is on the way reads record text and keys.\n"
        "Name its https address, or allow it with --allow-plain-http (setting allow_plain_http)."
    )


def _problem(url: str, parameters: frozenset[str], place_of_secrets: str) -> str:
    try:
        parts = urlsplit(url)
        has_host = _is_host(parts.netloc) and (parts.port is None or parts.port > 0)
    except ValueError:
        return "is not a URL"
    is_plain = url.isprintable() and not {" ", "\\"}.intersection(url)
    if not is_plain or not has_host or parts.scheme not in DEFAULT_PORTS:
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
