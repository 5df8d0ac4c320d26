"""Resources in part: `_elements` and `_summary`. What remains stays exactly as it was written.

Source: hl7.org/fhir/R4/search.html#summary and #elements; the members marked Σ on the page of each type.
"""

import json
from collections.abc import Iterable
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


def subset_resource(text: str, resource_type: str, elements: Iterable[str], summary: str) -> str:
    """The resource's JSON with only the members that are asked for, marked SUBSETTED."""
    spans = {name: text[start:end] for name, start, end, _ in members(text)}
    names = set(elements)
    if names:
        spans = {
            name: span
            for name, span in spans.items()
            if name in _ALWAYS or {name, _base(name)} & names
        }
    if summary == "data":
        spans.pop("text", None)
    elif summary == "text":
        spans = {
            name: span for name, span in spans.items() if name in _ALWAYS | _MANDATORY | {"text"}
        }
    elif summary == "true":
        kept = _summaries().get(resource_type, spans.keys() - {"text"}) | _ALWAYS
        spans = {name: span for name, span in spans.items() if name in kept}
    spans["meta"] = _marked(spans.get("meta", "{}"))
    return "{" + ", ".join(f"{json.dumps(name)}: {span}" for name, span in spans.items()) + "}"


@cache
def _summaries() -> dict[str, frozenset[str]]:
    """The members in each type's summary: `summary.tsv`."""
    lines = (Path(__file__).parent / "summary.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {resource_type: frozenset(names.split()) for resource_type, names in rows}


def _base(name: str) -> str:
    """`value` for `valueQuantity`: a choice is asked for by either name (elementdefinition.html#path)."""
    for stem in (
        "value",
        "effective",
        "performed",
        "onset",
        "medication",
        "occurrence",
        "deceased",
        "abatement",
    ):
        if name.startswith(stem) and name[len(stem) : len(stem) + 1].isupper():
            return stem
    return name


def _marked(meta: str) -> str:
    spans = {name: meta[start:end] for name, start, end, _ in members(meta)}
    inner = spans.get("tag", "[]").strip()[1:-1].strip()
    spans["tag"] = f"[{inner}, {_SUBSETTED}]" if inner else f"[{_SUBSETTED}]"
    return "{" + ", ".join(f"{json.dumps(name)}: {span}" for name, span in spans.items()) + "}"
