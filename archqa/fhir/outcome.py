"""What a record says when it cannot do what is asked: short OperationOutcomes that a model can act on.

Source: hl7.org/fhir/R4/operationoutcome.html.
"""

from collections.abc import Iterable
from typing import Any

from archqa.errors import CallerError

_LONGEST = 600
"""Characters of one diagnosis: it goes to a model."""


class FhirError(CallerError):
    """A request that will not do. `status` is the HTTP status, `code` the OperationOutcome's issue type.

    Holds every mistake of the request. None of them holds record text.
    """

    def __init__(
        self, diagnostics: str | Iterable[str], status: int = 400, code: str = "invalid"
    ) -> None:
        each = (diagnostics,) if isinstance(diagnostics, str) else tuple(diagnostics)
        self.diagnostics = tuple(
            text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in each
        )
        self.status = status
        self.code = code
        super().__init__("\n".join(self.diagnostics))

    def outcome(self) -> dict[str, Any]:
        """The OperationOutcome resource."""
        return operation_outcome(self.diagnostics, "error", self.code)


def operation_outcome(diagnostics: Iterable[str], severity: str, code: str) -> dict[str, Any]:
    """An OperationOutcome with one issue for each diagnosis."""
    issues = [{"severity": severity, "code": code, "diagnostics": text} for text in diagnostics]
    return {"resourceType": "OperationOutcome", "issue": issues}
