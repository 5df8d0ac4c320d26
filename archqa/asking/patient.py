"""Who a patient is, in the words of an answer."""

from collections.abc import Mapping
from typing import Any


def asked_patient(resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the `id` and the `name` of a Patient resource; the name is empty if there is none."""
    return {"id": str(resource.get("id", "")), "name": _name(resource)}


def _name(resource: Mapping[str, Any]) -> str:
    """Return the official name, else the earliest in the list (hl7.org/fhir/R4, HumanName)."""
    names = [name for name in resource.get("name") or () if isinstance(name, Mapping)]
    names.sort(key=lambda name: name.get("use") != "official")
    for name in names:
        parts = (*(name.get("given") or ()), name.get("family") or "")
        text = str(name.get("text") or " ".join(str(part) for part in parts))
        if text.strip():
            return " ".join(text.split())
    return ""
