"""Read a server's searchset Bundle as a page; resources keep their exact text.

Source: hl7.org/fhir/R4/bundle.html#searchset.
"""

from typing import Any

from archqa.fhir.outcome import FhirError
from archqa.fhir.record import Entry, Page
from archqa.fhir.values.json_spans import items, members


def read_searchset(text: str, query: str) -> Page:
    """Return a searchset as a page. Raises `FhirError` for no Bundle, `ValueError` for no JSON."""
    entries: list[Entry] = []
    total: int | None = None
    next_url: str | None = None
    resource_type = ""
    for name, start, _, value in members(text):
        if name == "resourceType":
            resource_type = value
        elif name == "total" and isinstance(value, int):
            total = value
        elif name == "link" and isinstance(value, list):
            next_url = _next_link(value)
        elif name == "entry":
            entries = _read_entries(text, start)
    if resource_type != "Bundle":
        raise FhirError("The server's answer is no Bundle.", 502, "structure")
    return Page(
        query,
        tuple(entries),
        total=total,
        next=next_url,
        count=len(entries),
    )


def _next_link(links: list[Any]) -> str | None:
    for link in links:
        if isinstance(link, dict) and link.get("relation") == "next":
            url = link.get("url")
            return url if isinstance(url, str) else None
    return None


def _read_entries(text: str, start: int) -> list[Entry]:
    entries = []
    for entry_start, _, _ in items(text, start):
        entry = _read_entry(text, entry_start)
        if entry is not None:
            entries.append(entry)
    return entries


def _read_entry(text: str, start: int) -> Entry | None:
    """Return one entry; None for one without a resource."""
    if text[start] != "{":
        return None
    resource: Any = None
    resource_text, mode = "", "match"
    for name, value_start, value_end, value in members(text, start):
        if name == "resource":
            resource, resource_text = value, text[value_start:value_end]
        elif name == "search" and isinstance(value, dict):
            mode = str(value.get("mode", "match"))
    if not isinstance(resource, dict):
        return None
    resource_type = str(resource.get("resourceType", ""))
    if resource_type == "OperationOutcome":
        mode = "outcome"
    return Entry(resource_type, str(resource.get("id", "")), resource_text, mode)
