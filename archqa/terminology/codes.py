"""Whether a coding of a record names a concept: by code, and by display where codes cannot tell."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.terminology.code_systems import (
    CodeSystem,
    code_system,
    has_prefix,
    normal_code,
)
from archqa.terminology.concept import DRUG_KINDS, Code, Concept
from archqa.terminology.concepts import load_concepts
from archqa.terminology.drugs import ANY_INGREDIENT, has_form, ingredients_of
from archqa.terminology.labels import measurements_named
from archqa.terminology.words import (
    common_forms,
    display_word_sets,
    display_words,
    single_display_words,
    word_list,
    word_sets,
)

_SEMANTIC_TAG = re.compile(
    r"(?:(?<!\s)\s++)?\((?:disorder|finding|procedure|situation|event|observable entity|regime/therapy|"
    r"morphologic abnormality|substance|person|physical object|qualifier value)\)\s*$"
)
"""What a fully specified name of SNOMED CT ends with."""

_DENIAL = re.compile(
    r"^(?:no|not|never|absence of|denies|o/e - no|on examination - no)\b|"
    r"\b(?:not present|absent|not detected|not found|ruled out)$",
    re.IGNORECASE,
)
"""A display that says that something is not there: `No cough`."""


TextCoding = tuple[str, str, str]
"""System, code and display, each of which may be empty."""


class DisplayRule(NamedTuple):
    """Words that a display holds, all of them, and sets of words of which it holds none fully.

    A word that begins with `*` stands for every word that ends so (`*ectomy`).
    """

    words: frozenset[str]
    excluded: tuple[frozenset[str], ...] = ()


@lru_cache(maxsize=65536)
def matches_code(
    concept: Concept,
    system: str | None,
    code: str | None,
    display: str | None,
    *,
    past: bool = False,
) -> bool:
    """Tell whether a coding of a record codes `concept`.

    In LOINC, CVX and ICD the code alone decides, where the concept has codes of that system. Of a
    measurement it decides only if some concept lists it: no table has all codes of LOINC.
    A code of SNOMED CT that the concept does not list may be a descendant, and a local or
    unknown system has its own codes: there the display decides, by whole words. A medicine is
    decided by its RxNorm ingredient code or by the ingredients that its display names.

    Which measurement a display names is told by `labels.py`: `Hemoglobin A1c` is no hemoglobin,
    `Glucose, Urine` no blood glucose.

    An uncertain code counts only where the display is empty or fits the concept.

    Args:
        concept: The concept that is asked of.
        system: The URL of the code system; None for text without code.
        code: The code in that system.
        display: What the record calls it.
        past: Count codes and displays of a condition or procedure in the past too.
    """
    read_as = code_system(system, code or "")
    normalised = normal_code(read_as, code or "")
    if normalised and _is_listed(concept, read_as, normalised, past=True):
        is_certain = _is_listed(concept, read_as, normalised, past=True, certain=True)
        if is_certain or fits_display(concept, display or ""):
            return past or _is_listed(concept, read_as, normalised, past=False)
    if concept.kind in DRUG_KINDS:
        return bool(display) and _names_drug(concept, display or "")
    if normalised and _code_decides(concept, read_as, normalised):
        return False
    return bool(display) and _names_concept(concept, display or "", past)


@lru_cache(maxsize=2048)
def display_rules(concept: Concept) -> tuple[DisplayRule, ...]:
    """Return the rules by which displays name a concept: one of them must hold."""
    rules: dict[DisplayRule, None] = {}
    for words, excluded in concept.displays:
        for alternative in word_sets(words):
            rules[DisplayRule(alternative, word_sets(excluded))] = None
    return tuple(rules)


def fits_display(concept: Concept, display: str) -> bool:
    """Tell whether a display may be a name of a concept: it is empty, or shares a telling word.

    "Vaccine", "test", "removed" and such words tell nothing; of a medicine the ingredients decide.
    """
    if not display:
        return True
    if concept.kind in DRUG_KINDS:
        return _names_drug(concept, display)
    return not _telling_words(concept).isdisjoint(display_words(display))


@lru_cache(maxsize=2048)
def _telling_words(concept: Concept) -> frozenset[str]:
    """Return the words of a concept's names that do not only tell its kind."""
    words: set[str] = set()
    for name in (concept.name, *concept.forms):
        words.update(common_forms(name))
    for rule in display_rules(concept):
        words |= rule.words
    words -= single_display_words("kind") | word_list("stop")
    return frozenset(word for word in words if not word.isdigit())


def _is_listed(
    concept: Concept,
    system: CodeSystem,
    code: str,
    *,
    past: bool,
    certain: bool = False,
) -> bool:
    codes = _codes_of(concept, system.url, past=past, certain=certain)
    if system.comparison == "prefix":
        return any(has_prefix(code, prefix) for prefix in codes)
    return code in codes


def _code_decides(concept: Concept, system: CodeSystem, code: str) -> bool:
    if concept.kind != "measurement" and system.comparison in ("exact", "prefix"):
        return bool(_codes_of(concept, system.url, past=False))
    return bool(_measurements_by_code().get((system.url, code)))


@lru_cache(maxsize=4096)
def _codes_of(
    concept: Concept, url: str, *, past: bool, certain: bool = False
) -> frozenset[str]:
    codes = {*concept.codes, *(concept.past_codes if past else ())}
    if certain:
        codes -= concept.uncertain
    return frozenset(code for system, code in codes if system == url)


@cache
def _measurements_by_code() -> dict[Code, tuple[Concept, ...]]:
    """Return the measurements that list a code; such a code of a record is no other one's."""
    concepts: dict[Code, tuple[Concept, ...]] = {}
    for concept in load_concepts():
        if concept.kind == "measurement":
            for code in concept.codes:
                concepts[code] = (*concepts.get(code, ()), concept)
    return concepts


@lru_cache(maxsize=16384)
def measurements_coded(codings: tuple[TextCoding, ...]) -> tuple[Concept, ...]:
    """Return the measurements of codings: by code if a table lists one, else by display.

    Next to a code that is listed, a text says no other: 2161-8 with the text `Creatinine` is
    creatinine in urine.
    """
    listed: dict[Concept, None] = {}
    named: dict[Concept, None] = {}
    for url, code, display in codings:
        system = code_system(url, code)
        for concept in _measurements_by_code().get((system.url, code), ()):
            if matches_code(concept, url, code, display):
                listed[concept] = None
        named.update(dict.fromkeys(measurements_named(display or "")))
    return tuple(listed or named)


def _names_drug(concept: Concept, display: str) -> bool:
    ingredients = ingredients_of(display)
    if concept.kind == "drug":
        return bool(ingredients) and set(concept.ingredients) <= set(ingredients)
    dose_forms = _dose_forms_by_ingredient(concept)
    for name in (*ingredients, ANY_INGREDIENT):
        for form in dose_forms.get(name, ()):
            is_excluded = form.startswith("-")
            if not form or has_form(display, form.removeprefix("-")) is not is_excluded:
                return True
    return False


@lru_cache(maxsize=512)
def _dose_forms_by_ingredient(concept: Concept) -> dict[str, tuple[str, ...]]:
    """Return the dose forms in which a class has an ingredient; the empty one is every form."""
    forms: dict[str, tuple[str, ...]] = {}
    for rule in concept.ingredients:
        name, _, form = rule.partition("@")
        forms[name] = (*forms.get(name, ()), form)
    return forms


def _names_concept(concept: Concept, display: str, past: bool) -> bool:
    if concept.kind == "measurement":
        return concept in measurements_named(display)
    name = _SEMANTIC_TAG.sub("", display)
    if _DENIAL.search(name):
        return False
    words = display_words(name)
    past_words = display_word_sets("past")
    for excluded in (*display_word_sets(f"not {concept.kind}"), *past_words):
        if excluded <= words and not (past and excluded in past_words):
            return False
    for rule in display_rules(concept):
        has_all = all(_has(words, word) for word in rule.words)
        if has_all and not any(excluded <= words for excluded in rule.excluded):
            return True
    return False


def _has(words: frozenset[str], word: str) -> bool:
    if not word.startswith("*"):
        return word in words
    return any(each.endswith(word[1:]) for each in words)
