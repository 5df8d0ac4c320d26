"""Say in a page that it is smaller than was asked for."""

import json
from dataclasses import replace

from archqa.fhir.outcome import operation_outcome
from archqa.fhir.record import Entry, Page


def with_cap_said(page: Page, asked: int, largest: int) -> Page:
    """Return the page, with a notice if more resources were asked for than a page may have."""
    if asked <= largest:
        return page
    notice = [f"_count is at most {largest}."]
    text = json.dumps(operation_outcome(notice, "information", "informational"))
    return replace(page, entries=(*page.entries, Entry("OperationOutcome", "", text, "outcome")))
