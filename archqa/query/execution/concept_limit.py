"""Rows that a concept means: by their codes, whatever their display says."""

from collections.abc import Iterable
from functools import cached_property

from archqa.query.execution.problems import CannotExecute
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS
from archqa.terminology.codes import matches_code
from archqa.terminology.concept import Concept, ConceptKind
from archqa.terminology.concepts import concept_named, find_concepts

ALL_CONCEPT_KINDS: tuple[ConceptKind, ...] = (
    "measurement",
    "condition",
    "procedure",
    "vaccine",
    "drug_class",
    "drug",
)
REASON_KINDS: tuple[ConceptKind, ...] = ("condition", "procedure", "measurement")
"""Concepts that are reasons, before all others."""


class ConceptMatcher:
    """Which rows the concepts of a query mean, their parts included. Without concepts: none.

    `past`: a history of a condition counts, too. `in_text`: a text without a code means every
    concept that it mentions, as a goal does: "Maintain blood pressure below 140/90". Raises
    `CannotExecute` for a name of no concept.
    """

    def __init__(
        self, concepts: Iterable[Concept], *, past: bool = False, in_text: bool = False
    ) -> None:
        self.concepts = tuple(concepts)
        self._past = past
        self._in_text = in_text

    def __bool__(self) -> bool:
        return bool(self.concepts)

    @property
    def parts(self) -> tuple[Concept, ...]:
        """The parts of the one measurement that consists of several, such as a blood pressure."""
        if len(self.concepts) != 1 or self.concepts[0].kind != "measurement":
            return ()
        return _parts(self.concepts[0])

    @cached_property
    def _with_parts(self) -> tuple[Concept, ...]:
        concepts: dict[str, Concept] = {}
        for concept in self.concepts:
            _add_with_parts(concept, concepts)
        return tuple(concepts.values())

    def matches(self, codings: Iterable[Coding]) -> bool:
        """Whether any of the codings is one of a concept or of a part of one."""
        return self.concept_of(codings) is not None

    def concept_of(self, codings: Iterable[Coding]) -> Concept | None:
        """The first concept, or part of one, that the codings mean."""
        for coding in codings:
            for concept in self._with_parts:
                if is_coded(concept, coding, past=self._past) or self._mentions(concept, coding):
                    return concept
        return None

    def _mentions(self, concept: Concept, coding: Coding) -> bool:
        """Whether a text without a code mentions the concept."""
        _, code, display = coding
        if not self._in_text or code or not display:
            return False
        return any(match.concept == concept for match in find_concepts(display))

    def matches_allergy(self, row: Row) -> bool:
        """Whether an allergy is to one of the concepts, or to a class of drugs that one is of."""
        if self.matches(row.codings):
            return True
        ingredients = _ingredients(self.concepts)
        return any(not ingredients.isdisjoint(_ingredients_of_classes(name)) for name in row.names)


def concepts_named(names: Iterable[str], kinds: tuple[ConceptKind, ...]) -> tuple[Concept, ...]:
    """The concepts of these names; of several with one name, that of the earliest kind."""
    return tuple(_concept(name, kinds) for name in names)


def concepts_of_rows(names: Iterable[str], what: str) -> tuple[Concept, ...]:
    """The concepts of these names that can name the rows of a kind."""
    return concepts_named(names, KINDS[what].concepts)


def is_coded(concept: Concept, coding: Coding, *, past: bool = False) -> bool:
    """Whether a coding codes the concept itself."""
    system, code, display = coding
    return matches_code(concept, system or None, code or None, display or None, past=past)


def _add_with_parts(concept: Concept, concepts: dict[str, Concept]) -> None:
    if concept.name in concepts:
        return
    concepts[concept.name] = concept
    for part in _parts(concept):
        _add_with_parts(part, concepts)


def _parts(concept: Concept) -> tuple[Concept, ...]:
    return tuple(_concept(name, (concept.kind,)) for name in concept.parts)


def _concept(name: str, kinds: tuple[ConceptKind, ...]) -> Concept:
    for kind in dict.fromkeys((*kinds, *ALL_CONCEPT_KINDS)):
        try:
            return concept_named(kind, name)
        except KeyError:
            continue
    raise CannotExecute(
        f"There is no concept named {name!r}.\nGive names as the record has them instead."
    )


def _ingredients(concepts: Iterable[Concept]) -> set[str]:
    ingredients: set[str] = set()
    for concept in concepts:
        ingredients.update(name.partition("@")[0] for name in concept.ingredients)
    return ingredients


def _ingredients_of_classes(display: str) -> set[str]:
    """The ingredients of the drug classes that a display names: of `Allergy to penicillin`."""
    classes = [match.concept for match in find_concepts(display)]
    return _ingredients(concept for concept in classes if concept.kind == "drug_class")
