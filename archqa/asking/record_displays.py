"""Displays of codes as people read them: without the marks of code systems and exports."""

import ast
import re
from functools import lru_cache
from typing import Any

_SNOMED_TAG = re.compile(
    r"\s*\((?:disorder|finding|procedure|situation|regime/therapy|morphologic abnormality"
    r"|observable entity|physical object|substance|person|event|body structure|product"
    r"|medicinal product|clinical drug|qualifier value|environment|organism|occupation"
    r"|record artifact|social concept|specimen|assessment scale|context-dependent category)\)$"
)
"""The semantic tag at the end of a SNOMED CT fully specified name."""

_LOINC_PROPERTY = re.compile(r"\s+\[[^\]]*\](?!\S)")
"""Property and scale in a LOINC long common name, [Mass/volume]; mm[Hg] is none."""

_LOINC_BLOOD = re.compile(r"\s+in (?:Serum or Plasma|Serum, Plasma or Blood|Serum|Plasma|Blood)\b")
_LOINC_METHOD = re.compile(r"\s+by (?:Automated count|Manual count|calculation|Computation)\b")
_CAPITAL_UNIT = re.compile(r"\b(?:MG|ML|MCG|MEQ|UNT|ACTUAT)\b")
_UNITS = {"MG": "mg", "ML": "mL", "MCG": "mcg", "MEQ": "mEq", "UNT": "units", "ACTUAT": "puff"}
_EXPORTED = re.compile(r"^\{.*\}$", re.DOTALL)


def clean_name(name: str) -> str:
    """Return a display as people read it: without semantic tag, LOINC property and capital units."""
    return sentence_case(without_marks(name))


@lru_cache(maxsize=16384)
def without_marks(name: str) -> str:
    """Return a display as `clean_name`, without a capital first letter where it has none."""
    text = " ".join(_exported_text(name).replace("_", " ").split())
    for pattern in (_SNOMED_TAG, _LOINC_PROPERTY, _LOINC_METHOD, _LOINC_BLOOD):
        text = pattern.sub("", text)
    return _CAPITAL_UNIT.sub(lambda match: _UNITS[match[0]], text)


def sentence_case(text: str) -> str:
    """Return a text with a capital first letter; `pH` keeps its own."""
    if text[1:2].isupper():
        return text
    return text[:1].upper() + text[1:]


def _exported_text(text: str) -> str:
    """The text in a dictionary that an export wrote where a text belongs; else the text itself."""
    if not _EXPORTED.match(text):
        return text
    try:
        exported = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return _text_in(exported) or text


def _text_in(exported: Any) -> str:
    """The `text`, else what is to be measured and its bound: `Hemoglobin A1c < 7`."""
    if not isinstance(exported, dict):
        return ""
    if isinstance(exported.get("text"), str):
        return str(exported["text"])
    observation = exported.get("observation")
    if not isinstance(observation, dict):
        return ""
    codes = observation.get("codes") or [{}]
    display = codes[0].get("display", "") if isinstance(codes[0], dict) else ""
    parts = (display, observation.get("operator", ""), observation.get("value", ""))
    return " ".join(str(part) for part in parts if display and part != "")
