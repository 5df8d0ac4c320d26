"""Look up the codes of a record by text: case, accents and white space do not matter.

Agents fail by searching for codes that a record does not use (LOINC in MIMIC); this returns those
it uses.
"""

import difflib
from collections.abc import Iterable

from archqa.core.value import FrozenModel
from archqa.fhir.record import CodeCount, Record
from archqa.fhir.values.text import normalise_text

_MIN_SIMILARITY = 0.75
"""The ratio of `difflib` from which a display counts as a misspelling."""

MATCH_ORDER = ("equal", "words", "part", "near")
"""How well a text matches, the best first."""


class CodeMatch(FrozenModel):
    """A code that matches a text.

    `match` is equal, words (all of them occur), part (of a word), or near (misspelt).
    """

    match: str
    code: CodeCount


def lookup(
    record: Record,
    words: str,
    *,
    patient: str | None = None,
    types: Iterable[str] = (),
    limit: int = 20,
) -> list[CodeMatch]:
    """Return the codes whose display or code matches the words, best first.

    They are those of one patient, or of the whole record; `types` limits the resource types.
    """
    text = normalise_text(words)
    searched_types = list(types)
    if not searched_types:
        searched_types = list(record.counts(patient))
        if patient:
            # A patient's drugs count, though a Medication is not about a patient.
            searched_types.append("Medication")
    matches = []
    for resource_type in dict.fromkeys(searched_types):
        for code in record.codes(resource_type, patient):
            match = match_name(text, code.display, (code.code,))
            if match:
                matches.append(CodeMatch(match=match, code=code))
    exact_matches = [match for match in matches if match.match != "near"]
    return sorted(exact_matches or matches, key=_sort_key)[:limit]


def _sort_key(match: CodeMatch) -> tuple[int, int, str, str]:
    code = match.code
    return MATCH_ORDER.index(match.match), -code.count, code.display, code.code


def match_name(text: str, name: str, other_names: Iterable[str] = ()) -> str:
    """Return how a normalised text matches a name or another name of the same thing.

    equal, words, part, or near (only of the name itself); empty if it does not match.
    """
    display = normalise_text(name)
    names = {display, *map(normalise_text, other_names)} - {""}
    if not text or not names:
        return ""
    if text in names:
        return "equal"
    words = set(text.split())
    if any(words <= set(each.split()) for each in names):
        return "words"
    if any(text in each for each in names):
        return "part"
    if not display:
        return ""
    # The text may be a misspelling of the name; cheap upper bounds come first.
    matcher = difflib.SequenceMatcher(None, text, display)
    ratios = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    is_near = all(ratio() >= _MIN_SIMILARITY for ratio in ratios)
    return "near" if is_near else ""
