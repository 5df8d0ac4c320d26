"""What a client asks for beside the resource: media types, preferences, parameters in vain.

Sources: hl7.org/fhir/R4/http.html#mime-type, #version-parameter, #parameters, #ops and
search.html#errors; RFC 7240 (Prefer); RFC 7234, section 5.5 (Warning); RFC 9110, section 12.5.
"""

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from archqa.fhir.profile import Profile
from archqa.fhir.record import FhirError, operation_outcome
from archqa.fhir.search.query import (
    Handling,
    Ignored,
    UnsupportedParameter,
    handling_of,
    without_ignored,
)
from archqa.fhir.search.result_parameters import (
    FHIR_JSON,
    JSON_TYPES,
    FormatKind,
    check_format,
    is_our_version,
    read_format,
    split_media_type,
)
from archqa.fhir.server.context import Headers, RequestContext
from archqa.fhir.values.resource_types import did_you_mean
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import Params

GENERAL_PARAMETERS = frozenset({"_format", "_pretty"})
"""What every request may have."""

READ_PARAMETERS = GENERAL_PARAMETERS | {"_summary", "_elements"}

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
_HANDLING = re.compile(r"handling\s*+=\s*+\"?(strict|lenient)\"?(?=[\s,;]|$)")
_RETURN = re.compile(r'(?:^|[,;])\s*+return\s*+=\s*+"?([^\s,;"]*)', re.IGNORECASE)

_MAX_MISTAKES = 5
"""Mistakes of a request that are reported."""


class ReturnPreference(StrEnum):
    """What a write is answered with: headers alone, the resource, or the findings about it."""

    MINIMAL = "minimal"
    REPRESENTATION = "representation"
    OUTCOME = "OperationOutcome"


def preferred_return(headers: Headers) -> ReturnPreference | None:
    """Return `Prefer: return=…`; None if there is none. Raises `FhirError` for an unknown one."""
    match = _RETURN.search(headers.get("prefer", ""))
    if match is None:
        return None
    for preference in ReturnPreference:
        if match[1].lower() == preference.value.lower():
            return preference
    known = ", ".join(preference.value for preference in ReturnPreference)
    raise FhirError(f"Prefer: return must be one of {known}.")


def preferred_handling(headers: Headers) -> bool | None:
    """Return whether the client asks for lenient handling; None if it does not say."""
    handlings = set(_HANDLING.findall(headers.get("prefer", "").lower()))
    if "strict" in handlings:
        return False
    return True if "lenient" in handlings else None


def supported_parameters(
    context: RequestContext,
    params: Params,
    known: frozenset[str],
    subject: str,
) -> tuple[Params, Ignored]:
    """Return the parameters that a request other than a search has, and those that it has not.

    Raises `FhirError`, with near misses, if these are not ignored.
    """
    ignored = Ignored(handling_of(context.profile, preferred_handling(context.headers)))
    mistakes = []
    for name, value in params:
        try:
            if name not in known:
                problem = f"{subject} has no parameter {quotable(name)}.{did_you_mean(name, known)}"
                raise UnsupportedParameter(
                    f"{problem} It has: {', '.join(sorted(known))}."
                )
            if name == "_format":
                check_format(value)
            if name == "_pretty" and value not in {"", "true", "false"}:
                raise UnsupportedParameter("_pretty is true or false.")
        except UnsupportedParameter as error:
            if not ignored.add(error, (name, value)):
                mistakes.append(str(error))
    if mistakes:
        raise FhirError(mistakes[:_MAX_MISTAKES])
    return without_ignored(params, ignored.pairs), ignored


def ignored_header(ignored: Ignored) -> dict[str, str]:
    """Return the header that names what was ignored, for a reply that has no room for an outcome."""
    if ignored.handling is not Handling.REPORT:
        return warning_header(ignored.warned)
    return warning_header(ignored.names)


def warning_header(names: Iterable[str]) -> dict[str, str]:
    """Return the header that names ignored parameters; none if there are none."""
    unique = list(dict.fromkeys(names))
    return {"warning": f'299 archqa "ignored: {", ".join(unique)}"'} if unique else {}


def outcome_of_warning(headers: Headers) -> str:
    """Return the warning of a reply as an OperationOutcome in JSON, empty if there is none."""
    text = headers.get("warning", "").partition('"')[2].rstrip('"')
    if not text:
        return ""
    return json.dumps(operation_outcome([f"{text}."], "warning", "not-supported"))


def check_formats(params: Params) -> None:
    """Raise `FhirError` (406) for a `_format` other than JSON."""
    for name, value in params:
        if name == "_format" and read_format(value) is FormatKind.OTHER:
            check_format(value)


class _MediaRange(NamedTuple):
    """A media range of `Accept`, such as `application/*`; a precise one counts before a wide one."""

    name: str
    quality: float

    @property
    def precision(self) -> int:
        return 0 if self.name == "*/*" else 1 if self.name.endswith("/*") else 2

    def covers(self, media_type: str) -> bool:
        if self.precision == 1:
            return media_type.startswith(self.name.removesuffix("*"))
        return self.name in {"*/*", media_type}


def reply_type(params: Params, headers: Headers, profile: Profile) -> str:
    """Return the media type that the reply has: `_format` counts before `Accept`.

    Raises `FhirError` (406) if the client accepts no JSON.
    """
    accept = headers.get("accept", "")
    names_format = any(name == "_format" and value.strip() for name, value in params)
    if not accept.strip() or names_format:
        return profile.content_type
    ranges = []
    for part in accept.split(","):
        name, version = split_media_type(part)
        quality = _quality(part)
        if is_our_version(version) and quality is not None:
            ranges.append(_MediaRange(name, quality))
    best_type, best_quality = "", 0.0
    for media_type in JSON_TYPES:
        covering = [
            media_range for media_range in ranges if media_range.covers(media_type)
        ]
        if not covering:
            continue
        most_precise = max(
            covering, key=lambda covered: (covered.precision, covered.quality)
        )
        if most_precise.quality > best_quality:
            best_type, best_quality = media_type, most_precise.quality
    if not best_type:
        raise FhirError(
            f"Only JSON is supported: Accept: {FHIR_JSON}.", 406, "not-supported"
        )
    return profile.content_type.replace(FHIR_JSON, best_type)


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client takes gzip, and would not rather have the body as it is."""
    weights = {}
    for part in accept_encoding.split(","):
        name = part.partition(";")[0].strip().lower()
        if name:
            weights[name] = _quality(part) or 0.0
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _quality(text: str) -> float | None:
    """Return the quality that parameters name, 1 without one; None if it is no quality."""
    quality = "1"
    for parameter in text.split(";")[1:]:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            quality = value.strip()
    return float(quality) if _QUALITY.fullmatch(quality) else None
