"""Searches as they are typed: `Type?name=value&name=value`, and what real agents make of that.

Source: hl7.org/fhir/R4/http.html#search; hl7.org/fhir/R4/search.html#escaping.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote_plus

from archqa.fhir.outcome import FhirError

_LONGEST = 200_000
"""Characters of a search. A thousand ids in one URL take 40,000."""


def parse_search_url(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Path and parameters of a relative URL. A stray `&` before any `?` is taken for one; slashes are made single."""
    if len(url) > _LONGEST:
        raise FhirError("The search is too long; ask for less at once.", 414, "too-long")
    head = re.split(r"[?&]", url.strip(), maxsplit=1)
    path = re.sub(r"/{2,}", "/", unquote_plus(head[0])).strip("/")
    return path, parse_query_string(head[1]) if len(head) > 1 else []


def parse_query_string(text: str) -> list[tuple[str, str]]:
    """Names and values of `a=b&c=d`, percent-decoded; `+` is a blank."""
    found = []
    for part in text.split("&"):
        name, _, value = part.partition("=")
        if name:
            found.append((_decode(name).strip(), _decode(value)))
    return found


def _decode(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise FhirError("The search is not percent-encoded UTF-8.") from None


def flatten_params(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]] | None,
) -> list[tuple[str, str]]:
    """Parameters as pairs; a list of values becomes a pair for each."""
    if params is None:
        return []
    found = []
    for name, value in params.items() if isinstance(params, Mapping) else params:
        values = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        found += [
            (name, ("true" if each else "false") if isinstance(each, bool) else str(each))
            for each in values
        ]
    return found


def build_search_url(path: str, params: Iterable[tuple[str, str]]) -> str:
    """The relative URL of a path and its parameters."""
    query = "&".join(
        f"{quote(name, safe=':_.-')}={quote(value, safe=',:|/-._*$')}" for name, value in params
    )
    return f"{path}?{query}" if query else path


def split_unescaped(text: str, sign: str) -> list[str]:
    """The parts between unescaped signs (`,` `|` `$`); what is escaped stays so."""
    parts, part, escaped = [], "", False
    for each in text:
        if each == sign and not escaped:
            parts.append(part)
            part = ""
        else:
            part += each
        escaped = each == "\\" and not escaped
    return [*parts, part]


def unescape(text: str) -> str:
    r"""The text with `\,` `\|` `\$` `\\` taken for the signs themselves."""
    return re.sub(r"\\([,|$\\])", r"\1", text)
