"""From words to the codes that are really in this record: case, accents and white space do not matter.

Agents fail by searching for codes that a record does not use (LOINC in MIMIC); this says which it does use.
"""

import difflib
from collections.abc import Iterable

from archqa.core.value import FrozenModel
from archqa.fhir.record import CodeCount, Record
from archqa.fhir.values.tokens import normalise_text

_NEAR = 0.75


class CodeMatch(FrozenModel):
    """A code that fits the words. `match`: equal, words (all of them occur), part (of a word), or near (misspelt)."""

    match: str
    found: CodeCount


_ORDER = ("equal", "words", "part", "near")


def lookup(
    record: Record,
    words: str,
    *,
    patient: str | None = None,
    types: Iterable[str] = (),
    limit: int = 20,
) -> list[CodeMatch]:
    """The codes whose words or code fit, best first: of one patient, or of the whole record; `types` limits where."""
    wanted = normalise_text(words)
    named = list(types) or [*record.counts(patient), *(["Medication"] if patient else [])]
    hits = []
    for resource_type in dict.fromkeys(named):
        for found in record.codes(resource_type, patient):
            match = _match(wanted, found)
            if match:
                hits.append(CodeMatch(match=match, found=found))
    if any(hit.match != "near" for hit in hits):
        hits = [hit for hit in hits if hit.match != "near"]
    hits.sort(
        key=lambda hit: (
            _ORDER.index(hit.match),
            -hit.found.count,
            hit.found.display,
            hit.found.code,
        )
    )
    return hits[:limit]


def _match(wanted: str, found: CodeCount) -> str:
    names = {normalise_text(found.display), normalise_text(found.code)} - {""}
    if not wanted or not names:
        return ""
    if wanted in names:
        return "equal"
    if any(set(wanted.split()) <= set(name.split()) for name in names):
        return "words"
    if any(wanted in name for name in names):
        return "part"
    return "near" if _is_near(wanted, normalise_text(found.display)) else ""


def _is_near(wanted: str, name: str) -> bool:
    """Misspelt, perhaps: the cheap bounds of the ratio are tried first."""
    compared = difflib.SequenceMatcher(None, wanted, name)
    return bool(name) and all(
        ratio() >= _NEAR
        for ratio in (compared.real_quick_ratio, compared.quick_ratio, compared.ratio)
    )
