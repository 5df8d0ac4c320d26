"""FHIRPath over one resource, by fhirpathpy (extra `fhirpath`). Source: hl7.org/fhirpath/N1."""

import re
from functools import lru_cache
from typing import Any

from archqa.errors import MissingExtra
from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Resource

_MAX_EXPRESSION_LENGTH = 2000


def evaluate(resource: Resource, expression: str, **variables: Any) -> list[Any]:
    """Return the values of an expression; `variables` are its `%name`s.

    Raises `FhirError` for an invalid expression, `MissingExtra` if fhirpathpy is not installed.
    """
    if len(expression) > _MAX_EXPRESSION_LENGTH:
        limit = f"more than {_MAX_EXPRESSION_LENGTH} characters"
        raise FhirError(f"The FHIRPath expression has {limit}.")
    if not _is_complete(expression):
        problem = "a bracket is open, or it ends in the middle"
        raise FhirError(f"The FHIRPath expression is cut off: {problem}.")
    program = _compile(expression)
    try:
        values = program(resource, variables)
    except Exception as error:  # fhirpathpy raises whatever happens inside it.
        problem = f"cannot be evaluated here ({type(error).__name__})"
        raise FhirError(f"The FHIRPath expression {problem}.") from None
    return values if isinstance(values, list) else [values]


@lru_cache(maxsize=256)
def _compile(expression: str) -> Any:
    try:
        import fhirpathpy
        from fhirpathpy.models import models
    except ImportError:
        raise MissingExtra("FHIRPath (fhirpathpy)", "fhirpath") from None
    try:
        return fhirpathpy.compile(expression, models["r4"])
    except Exception as error:
        raise FhirError(f"This is no FHIRPath expression ({type(error).__name__}).") from None


def _is_complete(expression: str) -> bool:
    """Whether brackets are closed and something follows the last operator.

    fhirpathpy ignores what is missing.
    """
    without_strings = re.sub(r"'(?:\\.|[^'\\])*'|`[^`]*`", "x", expression).strip()
    if not without_strings or ".." in without_strings or without_strings[-1] in ".,+*=<>&|":
        return False
    depth = 0
    for character in without_strings:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if depth < 0:
            return False
    return depth == 0
