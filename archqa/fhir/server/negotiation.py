"""Which media type a reply has: `_format` and the header `Accept`, of which the parameter counts.

Sources: hl7.org/fhir/R4/http.html#mime-type, #version-parameter; RFC 9110, section 12.5.1.
"""

import re
from typing import NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.search.result_parameters import check_format
from archqa.fhir.server.response import Headers
from archqa.fhir.values.formats import (
    FHIR_JSON,
    JSON_TYPES,
    FormatKind,
    is_our_version,
    read_format,
    split_media_type,
)
from archqa.fhir.values.urls import Params, parse_search_url

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


class _Range(NamedTuple):
    """A media range of `Accept`, such as `application/*`, and its quality."""

    name: str
    quality: float

    @property
    def precision(self) -> int:
        """How exact the range is: that of a type counts before one of all types."""
        return 0 if self.name == "*/*" else 1 if self.name.endswith("/*") else 2

    def covers(self, media_type: str) -> bool:
        """Whether the media type is one of the range."""
        if self.precision == 1:
            return media_type.startswith(self.name.removesuffix("*"))
        return self.name in {"*/*", media_type}


def check_formats(params: Params) -> None:
    """Raise `FhirError` (406) for a `_format` other than JSON."""
    for name, value in params:
        if name == "_format" and read_format(value) is FormatKind.OTHER:
            check_format(value)


def reply_type(url: str, headers: Headers, profile: Profile) -> str:
    """Return the media type that the reply to a request has. Raises `FhirError` (406)."""
    accept = headers.get("accept", "")
    if not accept.strip() or _names_format(url):
        return profile.content_type
    best = _best_type(accept)
    if best is None:
        problem = f"Only JSON is supported: Accept: {FHIR_JSON}."
        raise FhirError(problem, 406, "not-supported")
    return profile.content_type.replace(FHIR_JSON, best)


def _names_format(url: str) -> bool:
    if "_format" not in url:
        return False
    _, params = parse_search_url(url)
    return any(name == "_format" and value.strip() for name, value in params)


def _best_type(accept: str) -> str | None:
    """Return the JSON type of the highest quality; None if none is acceptable."""
    ranges = [parsed for part in accept.split(",") if (parsed := _parse_range(part))]
    best, best_quality = None, 0.0
    for media_type in JSON_TYPES:
        covering = [parsed for parsed in ranges if parsed.covers(media_type)]
        if not covering:
            continue
        quality = max(covering, key=lambda parsed: (parsed.precision, parsed.quality)).quality
        if quality > best_quality:
            best, best_quality = media_type, quality
    return best


def qualities(header: str) -> dict[str, float]:
    """Return the names of a header such as `Accept-Encoding` with their qualities."""
    named = {}
    for part in header.split(","):
        name = part.partition(";")[0].strip().lower()
        if name:
            named[name] = _quality(part) or 0.0
    return named


def _parse_range(text: str) -> _Range | None:
    """Return a range; None for one of another FHIR version, or with a quality that is none."""
    name, version = split_media_type(text)
    quality = _quality(text)
    if not is_our_version(version) or quality is None:
        return None
    return _Range(name, quality)


def _quality(text: str) -> float | None:
    """Return the quality that parameters name, 1 without one; None if it is no quality."""
    quality = "1"
    for parameter in text.split(";")[1:]:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            quality = value.strip()
    return float(quality) if _QUALITY.fullmatch(quality) else None
