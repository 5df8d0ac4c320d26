"""What a client prefers in the reply to a write. Source: hl7.org/fhir/R4/http.html#ops."""

import re
from collections.abc import Mapping
from enum import StrEnum

from archqa.fhir.outcome import FhirError

_RETURN = re.compile(r'(?:^|[,;])\s*return\s*=\s*"?([^\s,;"]*)', re.IGNORECASE)


class ReturnPreference(StrEnum):
    """Nothing but headers, the resource, or the findings about it."""

    MINIMAL = "minimal"
    REPRESENTATION = "representation"
    OUTCOME = "OperationOutcome"


def preferred_return(headers: Mapping[str, str]) -> ReturnPreference | None:
    """Return `Prefer: return=…`; None if there is none. Raises `FhirError` for an unknown one."""
    match = _RETURN.search(headers.get("prefer", ""))
    if match is None:
        return None
    for preference in ReturnPreference:
        if match[1].lower() == preference.value.lower():
            return preference
    known = ", ".join(preference.value for preference in ReturnPreference)
    raise FhirError(f"Prefer: return must be one of {known}.")
