"""Which server a base URL names: two spellings of one server are equal, two servers differ, and no
secret is in it.
"""

from urllib.parse import parse_qsl, urlencode, urlsplit

OPENAI_BASE_URL = "https://api.openai.com/v1"

_DEFAULT_PORTS = {"http": 80, "https": 443}

_IDENTIFYING_PARAMETERS = frozenset({"api-version", "deployment"})
"""Query parameters that change what answers (Azure OpenAI REST reference); all others are dropped.
"""


def server_identity(base_url: str | None) -> str:
    """Scheme, host, port and path of a base URL in one spelling; None stands for api.openai.com.

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


def _host_and_port(netloc: str, scheme: str) -> str:
    host_and_port = netloc.rpartition("@")[2].lower()
    host_and_port = host_and_port.removesuffix(":")
    default_port = _DEFAULT_PORTS.get(scheme)
    return host_and_port.removesuffix(f":{default_port}")
