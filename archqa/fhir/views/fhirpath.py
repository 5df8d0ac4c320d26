"""FHIRPath over one resource, by fhirpathpy (extra `fhirpath`). Source: hl7.org/fhirpath/N1."""

import re
from functools import lru_cache
from typing import Any

from archqa.errors import MissingExtra
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Resource

_LONGEST = 2000
"""Characters of an expression."""


def evaluate(resource: Resource, expression: str, **variables: Any) -> list[Any]:
    """What the expression gives; `variables` are its `%name`s. Raises `FhirError` for an expression that is none.

    Raises `MissingExtra` if fhirpathpy is not installed.
    """
    if len(expression) > _LONGEST:
        raise FhirError(f"The FHIRPath expression has more than {_LONGEST} characters.")
    if not _is_whole(expression):
        raise FhirError(
            "The FHIRPath expression is cut off: a bracket is open, or it ends in the middle."
        )
    program = _compiled(expression)
    try:
        found = program(resource, variables)
    except Exception as error:  # fhirpathpy raises whatever happens inside it.
        raise FhirError(
            f"The FHIRPath expression cannot be evaluated here ({type(error).__name__})."
        ) from None
    return found if isinstance(found, list) else [found]


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    try:
        import fhirpathpy
        from fhirpathpy.models import models
    except ImportError:
        raise MissingExtra("FHIRPath (fhirpathpy)", "fhirpath") from None
    try:
        return fhirpathpy.compile(expression, models["r4"])
    except Exception as error:
        raise FhirError(f"This is no FHIRPath expression ({type(error).__name__}).") from None


def _is_whole(expression: str) -> bool:
    """Whether brackets are closed and something follows the last dot: fhirpathpy reads on over what is missing."""
    plain = re.sub(r"'(?:\\.|[^'\\])*'|`[^`]*`", "x", expression)
    depth = 0
    for sign in plain:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return False
    return (
        depth == 0
        and bool(plain.strip())
        and ".." not in plain
        and plain.strip()[-1] not in ".,+*=<>&|"
    )
