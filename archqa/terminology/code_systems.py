"""Code systems: one name for all URLs of a system, and how its codes are compared."""

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple, cast

from archqa.core.tables import read_rows, split_cell

Comparison = Literal["exact", "prefix", "hierarchy", "local"]


class CodeSystem(NamedTuple):
    """A code system; `comparison` says what an unlisted code means (see `code_systems.tsv`)."""

    name: str
    url: str
    comparison: Comparison


UNKNOWN = CodeSystem("unknown", "", "local")
"""A local or unknown system, or none: displays decide."""

_ICD_9_PROCEDURE = re.compile(r"\d\d\.\d")


def code_system(url: str | None, code: str = "") -> CodeSystem:
    """Return the system of a URL, and `UNKNOWN` for one that the table lacks.

    ICD-9-CM has one URL for diagnoses (`410.71`) and procedures (`45.23`): the dot tells.
    """
    system = _systems_by_url().get(url or "", UNKNOWN)
    if system.name == "icd9" and _ICD_9_PROCEDURE.match(code):
        return systems_by_name()["icd9pcs"]
    return system


@cache
def systems_by_name() -> dict[str, CodeSystem]:
    """Return the systems by the short name that the tables use."""
    return {system.name: system for system in _systems_by_url().values()}


@cache
def _systems_by_url() -> dict[str, CodeSystem]:
    systems = {}
    for name, url, other_urls, comparison in read_rows(
        "terminology/data/code_systems.tsv", 4
    ):
        system = CodeSystem(name, url, cast("Comparison", comparison))
        for each in (url, *split_cell(other_urls)):
            systems[each] = system
    return systems


def normal_code(system: CodeSystem, code: str) -> str:
    """Return a code as the tables write it: ICD without dot, CVX without leading zeros."""
    if system.comparison == "prefix":
        return code.replace(".", "").upper()
    if system.name == "cvx":
        return code.lstrip("0")
    return code


@lru_cache(maxsize=65536)
def has_prefix(code: str, prefix: str) -> bool:
    """Tell whether `code` begins with `prefix`, in which `?` is any one character."""
    if "?" not in prefix:
        return code.startswith(prefix)
    if len(code) < len(prefix):
        return False
    pairs = zip(prefix, code[: len(prefix)], strict=True)
    return all(wanted in ("?", character) for wanted, character in pairs)
