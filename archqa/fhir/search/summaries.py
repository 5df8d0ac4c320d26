"""Parts of resources: `_elements` and `_summary`. The remaining members keep their exact text.

Sources: hl7.org/fhir/R4/search.html#summary and #elements; hl7.org/fhir/R4/http.html#parameters.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from archqa.fhir.index.blobs import StoredResource
from archqa.fhir.record import Entry
from archqa.fhir.request_budget import check_budget
from archqa.fhir.values.element_table import ALWAYS, ResourceElements, resource_elements
from archqa.fhir.values.json_spans import members

_SUBSETTED = (
    '{"system":"http://terminology.hl7.org/CodeSystem/v3-ObservationValue","code":"SUBSETTED"}'
)
_REFERENCE_TO_CONTAINED = re.compile(r'"reference"\s*:\s*"#')


@dataclass(frozen=True)
class Subset:
    """The part of each resource that is asked for: by default all of it."""

    elements: tuple[str, ...] = ()
    summary: str = "false"

    @property
    def is_whole(self) -> bool:
        """Whether resources stay as they are; a count has none."""
        return not self.elements and self.summary in {"false", "count"}


WHOLE = Subset()


def entry_of(resource: StoredResource, subset: Subset, mode: str = "match") -> Entry:
    """Return the entry for a resource, or for the part of it that is asked for."""
    check_budget()
    text = part_of_resource(resource.text, resource.type, subset)
    return Entry(resource.type, resource.id, text, mode)


def part_of_resource(text: str, resource_type: str, subset: Subset) -> str:
    """Return the resource's JSON with the requested members only, tagged SUBSETTED.

    Mandatory elements are always among them. A resource that is asked for as a whole stays as it
    is.
    """
    if subset.is_whole:
        return text
    spans = _spans(text)
    selected = _select(spans, _requested(spans, resource_elements(resource_type), subset))
    selected["meta"] = _tag_subsetted(selected.get("meta", "{}"))
    return _join(selected)


def _requested(spans: Mapping[str, str], table: ResourceElements, subset: Subset) -> set[str]:
    """Return the members that are asked for, and those that R4 wants returned with them."""
    if subset.summary == "data":
        return set(spans) - {"text"}
    requested = set(ALWAYS | table.mandatory)
    for element in subset.elements:
        requested |= table.members.get(element, frozenset())
    if subset.summary == "text":
        requested.add("text")
    elif subset.summary == "true":
        requested |= table.summary
    return requested


def _spans(text: str) -> dict[str, str]:
    """Return the text of each member of a JSON object."""
    return {name: text[start:end] for name, start, end, _ in members(text)}


def _select(spans: Mapping[str, str], names: set[str]) -> dict[str, str]:
    """Return these members, the extensions of primitive ones, and what they refer to within."""
    selected = {}
    for name, span in spans.items():
        if name.removeprefix("_") in names:
            selected[name] = span
    refers_to_contained = any(map(_REFERENCE_TO_CONTAINED.search, selected.values()))
    if refers_to_contained and "contained" in spans:
        selected["contained"] = spans["contained"]
    return selected


def _join(spans: Mapping[str, str]) -> str:
    text = ", ".join(f"{json.dumps(name)}: {span}" for name, span in spans.items())
    return f"{{{text}}}"


def _tag_subsetted(meta: str) -> str:
    spans = _spans(meta)
    tags = spans.get("tag", "[]").strip()[1:-1].strip()
    spans["tag"] = f"[{tags}, {_SUBSETTED}]" if tags else f"[{_SUBSETTED}]"
    return _join(spans)
