"""What a base URL says of its server, without the secrets that may stand in it."""

import ipaddress
import re
from urllib.parse import parse_qsl, urlencode, urlsplit

OPENAI_BASE_URL = "https://api.openai.com/v1"

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+")

_DEFAULT_PORTS = {"http": 80, "https": 443}

_IDENTIFYING_PARAMETERS = frozenset({"api-version", "deployment"})
"""Query parameters that change what answers (Azure OpenAI REST reference); all others are dropped.
"""


def server_identity(base_url: str | None) -> str:
    """Scheme, host, port and path of a base URL in one spelling; None stands for api.openai.com.

    Two spellings of one server are equal, two servers differ, and no secret is in it.

    Scheme and host are lower case; the scheme's default port, a trailing slash, user name, password
    and fragment are dropped. Azure's deployment is part of the path, or is kept as a query
    parameter like its `api-version`.
    """
    parts = urlsplit(base_url or OPENAI_BASE_URL)
    scheme = parts.scheme.lower()
    path = parts.path.rstrip("/")
    identity = f"{scheme}://{_host_and_port(parts.netloc, scheme)}{path}"
    parameters = [
        (name.lower(), value)
        for name, value in parse_qsl(parts.query)
        if name.lower() in _IDENTIFYING_PARAMETERS
    ]
    if not parameters:
        return identity
    return f"{identity}?{urlencode(sorted(parameters))}"


def without_secrets(text: str) -> str:
    """A text without the user names, passwords and queries of URLs in it; others stay as written."""
    return _URL.sub(_identity_if_secret, text)


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
    if not _is_http_url(proxy) or proxy_bypass(parts.netloc):
        return None
    return proxy


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return has_host and parts.scheme in _DEFAULT_PORTS and url.isprintable() and " " not in url


def _identity_if_secret(url: re.Match[str]) -> str:
    if "@" not in url[0] and "?" not in url[0]:
        return url[0]
    try:
        return server_identity(url[0])
    except ValueError:
        return "(an invalid address)"


def _host_and_port(netloc: str, scheme: str) -> str:
    host_and_port = netloc.rpartition("@")[2].lower()
    host_and_port = host_and_port.removesuffix(":")
    default_port = _DEFAULT_PORTS.get(scheme)
    return host_and_port.removesuffix(f":{default_port}")
