"""Parameters that a request has in vain: `Prefer: handling`, and the header that names them.

Sources: hl7.org/fhir/R4/search.html#errors, http.html#parameters; RFC 7240; RFC 7234, section 5.5.
"""

import json
import re
from collections.abc import Iterable

from archqa.fhir.outcome import FhirError, operation_outcome
from archqa.fhir.profile import Profile
from archqa.fhir.search.result_parameters import unknown_format
from archqa.fhir.search.unsupported import (
    Handling,
    Ignored,
    UnsupportedParameter,
    handling_of,
    without_ignored,
    without_unknown,
)
from archqa.fhir.server.response import Headers
from archqa.fhir.values.formats import FormatKind, read_format
from archqa.fhir.values.urls import Params

GENERAL_PARAMETERS = frozenset({"_format", "_pretty"})
"""What every request may have."""

READ_PARAMETERS = GENERAL_PARAMETERS
METADATA_PARAMETERS = GENERAL_PARAMETERS | {"mode", "_summary", "_elements"}
EVERYTHING_PARAMETERS = GENERAL_PARAMETERS | {
    *("_count", "_offset", "_page_token", "_since", "_type", "start", "end")
}

_HANDLING = re.compile(r"handling=\"?(strict|lenient)\"?(?=[\s,;]|$)")


def preferred_handling(headers: Headers) -> bool | None:
    """Return whether the client asks for lenient handling; None if it does not say."""
    preference = re.sub(r"\s*=\s*", "=", headers.get("prefer", "").lower())
    handlings = set(_HANDLING.findall(preference))
    if "strict" in handlings:
        return False
    return True if "lenient" in handlings else None


def supported_parameters(
    params: Params, known: Iterable[str], subject: str, profile: Profile, headers: Headers
) -> tuple[Params, Ignored]:
    """Return the parameters that a request other than a search has, and those that it has not.

    Raises `FhirError` if they are not ignored.
    """
    ignored = Ignored(handling_of(profile, preferred_handling(headers)))
    supported = without_unknown(params, known, subject, ignored)
    mistakes = []
    for name, value in supported:
        error = _problem_of_value(name, value)
        if error is not None and not ignored.add(error, (name, value)):
            mistakes.append(str(error))
    if mistakes:
        raise FhirError(mistakes)
    return without_ignored(supported, ignored.pairs), ignored


def _problem_of_value(name: str, value: str) -> UnsupportedParameter | None:
    if name == "_format" and read_format(value) is FormatKind.UNKNOWN:
        return unknown_format(value)
    if name == "_pretty" and value not in {"", "true", "false"}:
        return UnsupportedParameter("_pretty is true or false.")
    return None


def all_named(ignored: Ignored) -> list[str]:
    """Return the names of ignored parameters, for replies that have no room for an outcome."""
    if ignored.handling is not Handling.REPORT:
        return ignored.warned
    return ignored.names


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
