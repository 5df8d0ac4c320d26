"""Search URLs: `Type?name=value&name=value`, and the variants that agents write.

Source: hl7.org/fhir/R4/http.html#search; hl7.org/fhir/R4/search.html#escaping.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from archqa.fhir.record import FhirError

Params = list[tuple[str, str]]
"""Names and values of a URL, in order."""

_MAX_URL_LENGTH = 200_000
"""Characters of a search. A thousand ids in one URL take 40,000."""

MAX_PARAMETERS = 200
"""Parameters of a search: each is compiled to SQL of its own."""

_TOO_LONG = "The search is too long; ask for less at once."
_HAS_NUL = "The search holds a NUL character."

_PLAIN_SEGMENT = re.compile(r"(?!\.+\Z)[A-Za-z0-9$_.:~|@+-]+")
"""What types, ids and operations are written with: no server reads it as another path.

Blanks, `;` and `%` are left out: some servers drop what follows them, or decode twice.
"""


def is_plain_path(path: str) -> bool:
    """Whether each part of a path is written so that every server reads the same in it."""
    segments = filter(None, path.split("/"))
    return all(_PLAIN_SEGMENT.fullmatch(unquote(segment)) for segment in segments)


def parse_search_url(
    url: str, more: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None
) -> tuple[str, Params]:
    """Return path and parameters of a relative URL; `more` parameters follow them.

    A `&` before any `?` counts as `?`; repeated slashes count as one.
    Raises `FhirError` (414) for a URL that is too long.
    """
    if len(url) > _MAX_URL_LENGTH:
        raise FhirError(_TOO_LONG, 414, "too-long")
    parts = re.split(r"[?&]", url.strip(), maxsplit=1)
    path = re.sub(r"/{2,}", "/", unquote_plus(parts[0])).strip("/")
    if "\x00" in path:
        raise FhirError(_HAS_NUL)
    params = parse_query_string(parts[1]) if len(parts) > 1 else []
    return path, [*params, *flatten_params(more)]


def parse_query_string(text: str) -> Params:
    """Return names and values of `a=b&c=d`, percent-decoded; `+` is a blank.

    A value without a name stays, with an empty one: no type has such a parameter.
    """
    if len(text) > _MAX_URL_LENGTH:
        raise FhirError(_TOO_LONG, 414, "too-long")
    params = []
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if part.strip():
            params.append((_decode(name).strip(), _decode(value)))
    if len(params) > MAX_PARAMETERS:
        limit = f"A search has at most {MAX_PARAMETERS} parameters."
        raise FhirError(
            f"{limit} Alternatives are written name=a,b,c.", 400, "too-costly"
        )
    return params


def _decode(text: str) -> str:
    try:
        decoded = unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise FhirError("The search is not percent-encoded UTF-8.") from None
    if "\x00" in decoded:
        raise FhirError(_HAS_NUL)
    return decoded


def flatten_params(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]] | None,
) -> Params:
    """Return parameters as pairs; a list of values becomes one pair for each value."""
    if params is None:
        return []
    pairs = params.items() if isinstance(params, Mapping) else params
    flat: Params = []
    for name, value in pairs:
        values = (
            value if isinstance(value, list | tuple | set | frozenset) else (value,)
        )
        for item in values:
            flat.append(
                (name, str(item).lower() if isinstance(item, bool) else str(item))
            )
    return flat


def build_search_url(path: str, params: Iterable[tuple[str, str]]) -> str:
    """Return the relative URL of a path and its parameters.

    Raises `FhirError` for half a surrogate pair.
    """
    encoded = []
    try:
        path = quote(path, safe="/$")
        for name, value in params:
            encoded.append(
                f"{quote(name, safe=':_.-')}={quote(value, safe=',:|/-._*$')}"
            )
    except UnicodeEncodeError:
        raise FhirError("The search holds half a surrogate pair.") from None
    return f"{path}?{'&'.join(encoded)}" if encoded else path


def with_count(params: Iterable[tuple[str, str]], count: int) -> Params:
    """Return the parameters with `_count`, where there is one, at most this."""
    capped = []
    for name, value in params:
        is_number = name == "_count" and value.strip().isdecimal()
        # Python refuses to read a number of 5,000 digits.
        is_larger = is_number and (len(value) > 9 or int(value) > count)
        capped.append((name, str(count) if is_larger else value))
    return capped


def split_unescaped(text: str, separator: str) -> list[str]:
    """Split at unescaped separators (`,` `|` `$`); escapes stay in the parts."""
    parts = []
    start = 0
    for match in re.finditer(r"\\.|" + re.escape(separator), text, re.DOTALL):
        if match[0] == separator:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def escape(text: str) -> str:
    """Return a value in which `,` `|` `$` and the backslash have no meaning of their own."""
    return re.sub(r"([,|$\\])", r"\\\1", text)


def unescape(text: str) -> str:
    r"""Replace `\,` `\|` `\$` `\\` by the characters themselves."""
    return re.sub(r"\\([,|$\\])", r"\1", text)
