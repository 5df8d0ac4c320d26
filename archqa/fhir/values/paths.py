"""Element paths: `subject`, `name.family`, `telecom(system=phone)`, and two computed elements.

`extension(http://…/us-core-race).extension.valueCoding` goes through the extension of that URL. A
small part of FHIRPath, compiled to plain functions because loading visits millions of elements.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

PathGetter = Callable[[dict[str, Any]], Sequence[Any]]

_STEP = re.compile(r"(?:[^.(]|\([^)]*\))+")
_FILTERED_STEP = re.compile(r"(\w+)\((?:(\w+)=)?([^()]+)\)")
_NO_VALUES: tuple[Any, ...] = ()


@cache
def compile_path(path: str) -> PathGetter:
    """Return a function from a resource to the values at the path.

    The function flattens lists and leaves out null.
    """
    if path in _COMPUTED:
        return _COMPUTED[path]
    names = _STEP.findall(path)
    steps = [_compile_step(name) for name in names]
    if len(steps) == 1:
        return steps[0]
    if len(steps) == 2 and "(" not in path:
        return _two_members(names[0], names[1], _chain(steps))
    return _chain(steps)


def root_element(path: str) -> str | None:
    """Return the member at which the path starts; None for computed elements."""
    if path in _COMPUTED:
        return None
    return re.split(r"\W", path, maxsplit=1)[0]


def _compile_step(step: str) -> PathGetter:
    filtered = _FILTERED_STEP.fullmatch(step)
    if filtered is None:
        return lambda node: _values(node.get(step))
    name, key, required = filtered.groups(default="url")

    def matching_values(node: dict[str, Any]) -> Sequence[Any]:
        matching = []
        for value in _values(node.get(name)):
            if isinstance(value, dict) and value.get(key) == required:
                matching.append(value)
        return matching

    return matching_values


def _two_members(first: str, second: str, otherwise: PathGetter) -> PathGetter:
    """Return a getter that is fast where the first member is no list, such as `meta.profile`."""

    def follow(resource: dict[str, Any]) -> Sequence[Any]:
        node = resource.get(first)
        if type(node) is dict:
            return _values(node.get(second))
        return otherwise(resource)

    return follow


def _chain(steps: list[PathGetter]) -> PathGetter:
    def follow(resource: dict[str, Any]) -> Sequence[Any]:
        nodes: Sequence[Any] = (resource,)
        for step in steps:
            values: list[Any] = []
            for node in nodes:
                if isinstance(node, dict):
                    values += step(node)
            nodes = values
        return nodes

    return follow


def _values(value: Any) -> Sequence[Any]:
    if value is None:
        return _NO_VALUES
    if isinstance(value, list):
        return [item for item in value if item is not None]
    return (value,)


def _deceased(patient: dict[str, Any]) -> Sequence[Any]:
    """True or false for every patient: parameter `deceased` of hl7.org/fhir/R4/patient.html."""
    has_date = "deceasedDateTime" in patient
    is_deceased = has_date or patient.get("deceasedBoolean") is True
    return (is_deceased,)


def _legal_sex(patient: dict[str, Any]) -> Sequence[Any]:
    """The legal-sex extension, else the gender (as in Epic's API, MedAgentBench `funcs_v1`)."""
    for extension in _values(patient.get("extension")):
        if not isinstance(extension, dict):
            continue
        url = str(extension.get("url", ""))
        if url.endswith("legal-sex"):
            return _extension_values(extension)
    return _values(patient.get("gender"))


def _extension_values(extension: dict[str, Any]) -> list[Any]:
    """Return the `value[x]` of an extension."""
    values = []
    for name, value in extension.items():
        if name.startswith("value") and value is not None:
            values.append(value)
    return values


_COMPUTED: dict[str, PathGetter] = {"deceased()": _deceased, "legal-sex()": _legal_sex}
