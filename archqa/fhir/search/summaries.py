"""Parts of resources: `_elements` and `_summary`. The remaining members keep their exact text.

Source: hl7.org/fhir/R4/search.html#summary and #elements; the members marked Σ on the page of each
type.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from archqa.fhir.values.json_spans import members

_ALWAYS = frozenset({"resourceType", "id", "meta", "implicitRules"})
_SUBSETTED = (
    '{"system":"http://terminology.hl7.org/CodeSystem/v3-ObservationValue","code":"SUBSETTED"}'
)
_MANDATORY = {
    "status",
    "intent",
    "code",
    "subject",
    "patient",
    "class",
    "medicationReference",
    "medicationCodeableConcept",
}
_CHOICES = (
    "value",
    "effective",
    "performed",
    "onset",
    "medication",
    "occurrence",
    "deceased",
    "abatement",
)
"""Elements with a choice of types, such as `value[x]`."""


def subset_resource(
    text: str,
    resource_type: str,
    elements: Iterable[str],
    summary: str,
) -> str:
    """Return the resource's JSON with the requested members only, tagged SUBSETTED."""
    spans = _spans(text)
    requested = set(elements)
    if requested:
        spans = _select(spans, {name for name in spans if requested & {name, _choice_of(name)}})
    if summary == "data":
        spans.pop("text", None)
    elif summary == "text":
        spans = _select(spans, _MANDATORY | {"text"})
    elif summary == "true":
        default = spans.keys() - {"text"}
        spans = _select(spans, _summary_members().get(resource_type, default))
    spans["meta"] = _tag_subsetted(spans.get("meta", "{}"))
    return _join(spans)


def _spans(text: str) -> dict[str, str]:
    """Return the text of each member of a JSON object."""
    return {name: text[start:end] for name, start, end, _ in members(text)}


def _select(spans: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    selected = _ALWAYS.union(names)
    return {name: span for name, span in spans.items() if name in selected}


def _join(spans: Mapping[str, str]) -> str:
    text = ", ".join(f"{json.dumps(name)}: {span}" for name, span in spans.items())
    return f"{{{text}}}"


@cache
def _summary_members() -> dict[str, frozenset[str]]:
    """Return the members in each type's summary: `summary.tsv`."""
    table = {}
    text = (Path(__file__).parent / "summary.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            resource_type, names = line.split("\t")
            table[resource_type] = frozenset(names.split())
    return table


def _choice_of(name: str) -> str:
    """Return `value` for `valueQuantity`: both names request it (elementdefinition.html#path)."""
    for choice in _CHOICES:
        if name.startswith(choice) and name[len(choice) : len(choice) + 1].isupper():
            return choice
    return name


def _tag_subsetted(meta: str) -> str:
    spans = _spans(meta)
    tags = spans.get("tag", "[]").strip()[1:-1].strip()
    spans["tag"] = f"[{tags}, {_SUBSETTED}]" if tags else f"[{_SUBSETTED}]"
    return _join(spans)
