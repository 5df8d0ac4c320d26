"""Errors of a record as OperationOutcomes, short enough for a model to act on.

Source: hl7.org/fhir/R4/operationoutcome.html.
"""

from collections.abc import Iterable
from typing import Any

from archqa.errors import CallerError

_MAX_DIAGNOSTIC_LENGTH = 600
"""Characters of one diagnostic: it goes to a model."""


class FhirError(CallerError):
    """An invalid request.

    `status` is the HTTP status, `code` the issue type of the OperationOutcome.

    `diagnostics` lists every mistake of the request; none of them contains record text.
    """

    def __init__(
        self, diagnostics: str | Iterable[str], status: int = 400, code: str = "invalid"
    ) -> None:
        texts = [diagnostics] if isinstance(diagnostics, str) else diagnostics
        self.diagnostics = tuple(_shorten(text) for text in texts)
        self.status = status
        self.code = code
        super().__init__("\n".join(self.diagnostics))

    def outcome(self) -> dict[str, Any]:
        """Return the OperationOutcome resource."""
        return operation_outcome(self.diagnostics, "error", self.code)


def operation_outcome(diagnostics: Iterable[str], severity: str, code: str) -> dict[str, Any]:
    """Return an OperationOutcome with one issue for each diagnostic."""
    issues = [{"severity": severity, "code": code, "diagnostics": text} for text in diagnostics]
    return {"resourceType": "OperationOutcome", "issue": issues}


def _shorten(text: str) -> str:
    if len(text) <= _MAX_DIAGNOSTIC_LENGTH:
        return text
    return f"{text[: _MAX_DIAGNOSTIC_LENGTH - 1]}…"
