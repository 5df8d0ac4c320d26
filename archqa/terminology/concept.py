"""A clinical concept: what it is called in questions and in sentences, and how records code it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from archqa.terminology.matching import expand

ConceptKind = Literal[
    "measurement",
    "drug",
    "drug_class",
    "condition",
    "vaccine",
    "procedure",
    "finding",
    "organism",
    "device",
]
"""What a concept is; the last three are known in sentences only, the others in records too."""

DRUG_KINDS: frozenset[ConceptKind] = frozenset({"drug", "drug_class"})

Code = tuple[str, str]
"""A canonical FHIR URL and a code; codes of ICD have no dot and are prefixes."""


class Aspect(StrEnum):
    """As what a sentence speaks of a concept: what it means to affirm or deny it depends on it."""

    FINDING = "finding"
    ALLERGY = "allergy"
    HABIT = "habit"
    DRUG = "drug"
    MEASUREMENT = "measurement"
    PROCEDURE = "procedure"
    STATE = "state"
    NORMAL = "normal"
    ABNORMAL = "abnormal"


class Relation(StrEnum):
    """How the words of a sentence relate to a concept."""

    SAME = "same"
    NARROWER = "narrower"
    """A kind of it: if that is present the concept is, not the reverse."""

    OPPOSITE = "opposite"


StatedForms = tuple[tuple[Relation, tuple[str, ...]], ...]
"""Forms that sentences state, by their relation to the concept."""


class Forms(NamedTuple):
    """The forms of a cell by who reads them."""

    asked: tuple[str, ...]
    """Looked for in questions."""

    stated: StatedForms
    """Looked for in sentences of notes."""

    display_only: tuple[str, ...]
    """Looked for in the displays of a record only: in a question they mean something else."""

    diseases: tuple[str, ...]
    """Those of `asked` that name the disease as well as the vaccine."""


_STATED = {".": Relation.SAME, "~": Relation.NARROWER, "!": Relation.OPPOSITE}


def read_forms(cell: str) -> Forms:
    """Return the forms of a cell by their marks: see the header of `conditions.tsv`."""
    asked: list[str] = []
    stated: dict[Relation, list[str]] = {}
    display_only: list[str] = []
    diseases: list[str] = []
    for form in expand(cell):
        if form[0] in _STATED:
            stated.setdefault(_STATED[form[0]], []).append(form[1:])
            continue
        if form[0] == "$":
            display_only.append(form[1:])
            continue
        plain = form.lstrip("+&")
        asked.append(plain)
        if form[0] == "+":
            stated.setdefault(Relation.SAME, []).append(plain)
        if "&" in form[: len(form) - len(plain)]:
            diseases.append(plain)
    return Forms(
        asked=tuple(asked),
        stated=tuple(
            (relation, tuple(of_relation)) for relation, of_relation in stated.items()
        ),
        display_only=tuple(display_only),
        diseases=tuple(diseases),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Concept:
    """One thing, whatever it is called. There is one object for each, so identity is equality.

    `forms` name it in questions, `stated` in sentences of notes, by their relation to it.
    `codes` code it; in those of ICD `?` is any one character. `past_codes` say that the patient
    had it once. `uncertain` are codes that no public source was seen to have, or that are wider.
    `displays` are cells of words of its displays, of which one alternative must be there, and of
    words that exclude it; see `codes.py`.
    `parts` name the measurements of a panel (the one that stands for it first), the subclasses of
    a class of drugs, or what a condition, vaccine or procedure includes.
    `ingredients` of a drug are all in one product; a drug class has any of its ingredients,
    and `timolol@oral` only in that form, `tacrolimus@-topical` only in another one.
    `unit` is the UCUM unit in which values of a measurement are shown.
    """

    kind: ConceptKind
    name: str
    aspect: Aspect
    forms: tuple[str, ...] = ()
    stated: StatedForms = ()
    codes: tuple[Code, ...] = ()
    past_codes: tuple[Code, ...] = ()
    uncertain: frozenset[Code] = frozenset()
    displays: tuple[tuple[str, str], ...] = ()
    ingredients: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    unit: str | None = None


class ConceptMatch(NamedTuple):
    """A concept and the span of the question that names it; an ambiguous span has several."""

    start: int
    end: int
    concept: Concept


class Mention(NamedTuple):
    """Characters of a sentence that name a concept, or what is opposite to it; `end` is exclusive."""

    concept: Concept
    relation: Relation
    start: int
    end: int

    def moved(self, offset: int) -> "Mention":
        """Return the mention as of a text in which it stands `offset` characters later."""
        return self._replace(start=self.start + offset, end=self.end + offset)
