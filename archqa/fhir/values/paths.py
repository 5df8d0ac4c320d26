"""Where an element is: `subject`, `name.family`, `telecom(system=phone)`, and two that must be worked out.

A small part of FHIRPath, compiled to plain functions because loading walks millions of elements.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

PathGetter = Callable[[dict[str, Any]], Sequence[Any]]

_STEP = re.compile(r"(\w+)\((\w+)=(\w+)\)")
_NONE: tuple[Any, ...] = ()


@cache
def compile_path(path: str) -> PathGetter:
    """A function from a resource to the values at the path, lists laid flat; no value is ever None."""
    if path in _WORKED_OUT:
        return _WORKED_OUT[path]
    steps = [_step(each) for each in path.split(".")]
    return steps[0] if len(steps) == 1 else _in_turn(steps)


def root_element(path: str) -> str | None:
    """The member of a resource without which the path leads to nothing; None if it may lead somewhere all the same."""
    return None if path in _WORKED_OUT else re.split(r"\W", path, maxsplit=1)[0]


def _step(step: str) -> PathGetter:
    filtered = _STEP.fullmatch(step)
    if filtered is None:
        return lambda node: _values(node.get(step))
    name, key, wanted = filtered.groups()
    return lambda node: [
        v for v in _values(node.get(name)) if isinstance(v, dict) and v.get(key) == wanted
    ]


def _in_turn(steps: list[PathGetter]) -> PathGetter:
    def values(resource: dict[str, Any]) -> Sequence[Any]:
        nodes: Sequence[Any] = (resource,)
        for step in steps:
            nodes = [value for node in nodes if isinstance(node, dict) for value in step(node)]
        return nodes

    return values


def _values(value: Any) -> Sequence[Any]:
    if value is None:
        return _NONE
    return [each for each in value if each is not None] if isinstance(value, list) else (value,)


def _deceased(patient: dict[str, Any]) -> Sequence[Any]:
    """True or false for every patient: hl7.org/fhir/R4/patient.html#search, parameter `deceased`."""
    return (patient.get("deceasedBoolean") is True or "deceasedDateTime" in patient,)


def _legal_sex(patient: dict[str, Any]) -> Sequence[Any]:
    """The legal-sex extension; where there is none, the gender (as Epic's API words it, MedAgentBench `funcs_v1`)."""
    for extension in _values(patient.get("extension")):
        if isinstance(extension, dict) and str(extension.get("url", "")).endswith("legal-sex"):
            return [
                value
                for key, value in extension.items()
                if key.startswith("value") and value is not None
            ]
    return _values(patient.get("gender"))


_WORKED_OUT: dict[str, PathGetter] = {"deceased()": _deceased, "legal-sex()": _legal_sex}
