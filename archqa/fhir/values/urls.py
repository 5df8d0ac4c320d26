"""Search URLs: `Type?name=value&name=value`, and the variants that agents write.

Source: hl7.org/fhir/R4/http.html#search; hl7.org/fhir/R4/search.html#escaping.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote_plus

from archqa.fhir.outcome import FhirError

Params = list[tuple[str, str]]
"""Names and values of a URL, in order."""

_MAX_URL_LENGTH = 200_000
"""Characters of a search. A thousand ids in one URL take 40,000."""


def parse_search_url(url: str) -> tuple[str, Params]:
    """Return path and parameters of a relative URL.

    A `&` before any `?` counts as `?`; repeated slashes count as one.
    Raises `FhirError` (414) for a URL that is too long.
    """
    if len(url) > _MAX_URL_LENGTH:
        raise FhirError("The search is too long; ask for less at once.", 414, "too-long")
    parts = re.split(r"[?&]", url.strip(), maxsplit=1)
    path = re.sub(r"/{2,}", "/", unquote_plus(parts[0])).strip("/")
    params = parse_query_string(parts[1]) if len(parts) > 1 else []
    return path, params


def parse_query_string(text: str) -> Params:
    """Return names and values of `a=b&c=d`, percent-decoded; `+` is a blank."""
    params = []
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if name:
            params.append((_decode(name).strip(), _decode(value)))
    return params


def _decode(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise FhirError("The search is not percent-encoded UTF-8.") from None


def flatten_params(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]] | None,
) -> Params:
    """Return parameters as pairs; a list of values becomes one pair for each value."""
    if params is None:
        return []
    pairs = params.items() if isinstance(params, Mapping) else params
    flat: Params = []
    for name, value in pairs:
        values = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        flat += [(name, _as_text(item)) for item in values]
    return flat


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def build_search_url(path: str, params: Iterable[tuple[str, str]]) -> str:
    """Return the relative URL of a path and its parameters."""
    encoded = [
        f"{quote(name, safe=':_.-')}={quote(value, safe=',:|/-._*$')}" for name, value in params
    ]
    return f"{path}?{'&'.join(encoded)}" if encoded else path


def split_unescaped(text: str, separator: str) -> list[str]:
    """Split at unescaped separators (`,` `|` `$`); escapes stay in the parts."""
    parts = [""]
    escaped = False
    for character in text:
        if character == separator and not escaped:
            parts.append("")
        else:
            parts[-1] += character
        escaped = character == "\\" and not escaped
    return parts


def unescape(text: str) -> str:
    r"""Replace `\,` `\|` `\$` `\\` by the characters themselves."""
    return re.sub(r"\\([,|$\\])", r"\1", text)
