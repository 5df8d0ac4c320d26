"""The entry of a searchset that says what was ignored or read in another way.

Source: hl7.org/fhir/R4/search.html#errors, bundle.html#searchset.
"""

import json
from collections.abc import Iterable

from archqa.fhir.outcome import operation_outcome
from archqa.fhir.record import Entry


def outcome_entries(warnings: Iterable[str], notices: Iterable[str]) -> list[Entry]:
    """Return one entry, or none if there is nothing to say.

    `warnings` tell what a request asked for in vain, `notices` how it was read.
    """
    outcome = operation_outcome(warnings, "warning", "not-supported")
    outcome["issue"] += operation_outcome(notices, "information", "informational")["issue"]
    if not outcome["issue"]:
        return []
    return [Entry("OperationOutcome", "", json.dumps(outcome), "outcome")]
