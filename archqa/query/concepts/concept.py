"""A clinical concept: what people call it, and how records code it."""

from typing import Literal, NamedTuple

ConceptKind = Literal["measurement", "drug", "drug_class", "condition", "vaccine", "procedure"]


class DisplayRule(NamedTuple):
    """Words that a display holds, all of them, and sets of words of which it holds none fully.

    A word that begins with `*` stands for every word that ends so (`*ectomy`).
    """

    words: frozenset[str]
    excluded: tuple[frozenset[str], ...] = ()


class Concept(NamedTuple):
    """One thing that a question asks of, whatever it is called.

    `codes` are pairs of a canonical FHIR URL and a code. Codes of ICD have no dot and are
    prefixes, in which `?` is any one character. `past_codes` say that the patient had it once.
    `parts` name the measurements of a panel (the one that stands for it first), the subclasses of
    a class of drugs, or what a condition, vaccine or procedure includes.
    `ingredients` of a drug are all in one product; a drug class has any of its ingredients,
    and `timolol@oral` only in that form, `tacrolimus@-topical` only in another one.
    `unit` is the UCUM unit in which values of a measurement are shown.
    """

    kind: ConceptKind
    name: str
    codes: tuple[tuple[str, str], ...] = ()
    past_codes: tuple[tuple[str, str], ...] = ()
    display_rules: tuple[DisplayRule, ...] = ()
    ingredients: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    unit: str | None = None


class ConceptMatch(NamedTuple):
    """A concept and the span of the text that names it; an ambiguous span has several."""

    start: int
    end: int
    concept: Concept
