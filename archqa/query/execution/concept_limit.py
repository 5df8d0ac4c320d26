"""Rows that a concept means: by their codes, whatever their display says."""

from collections.abc import Iterable
from functools import cached_property

from archqa.query.concepts import Concept, concept_named, matches_code
from archqa.query.execution.problems import CannotExecute
from archqa.query.execution.rows import Coding, Row


class ConceptMatcher:
    """Which codings the concepts of a query mean, their parts included. Without concepts: none.

    Raises `CannotExecute` for a name that is no concept's.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.concepts = tuple(_concept(name) for name in names)

    def __bool__(self) -> bool:
        return bool(self.concepts)

    @cached_property
    def _with_parts(self) -> tuple[Concept, ...]:
        concepts: dict[str, Concept] = {}
        for concept in self.concepts:
            _add_with_parts(concept, concepts)
        return tuple(concepts.values())

    def matches(self, codings: Iterable[Coding]) -> bool:
        """Whether any of the codings is one of a concept or of a part of one."""
        return any(self.concept_of((coding,)) for coding in codings)

    def matches_row(self, row: Row) -> bool:
        """Whether the row is one of a concept or of a part of one."""
        return self.matches(row.codings)

    def concept_of(self, codings: Iterable[Coding]) -> Concept | None:
        """The first concept, or part of one, that the codings mean."""
        for coding in codings:
            for concept in self._with_parts:
                if is_coded(concept, coding):
                    return concept
        return None

    @property
    def parts(self) -> tuple[Concept, ...]:
        """The parts of the one measurement that consists of several, such as a blood pressure."""
        if len(self.concepts) != 1 or self.concepts[0].kind != "measurement":
            return ()
        return tuple(_concept(name) for name in self.concepts[0].parts)


def is_coded(concept: Concept, coding: Coding) -> bool:
    """Whether a coding codes the concept itself."""
    return matches_code(
        concept, coding.system or None, coding.code or None, coding.display or None
    )


def _add_with_parts(concept: Concept, concepts: dict[str, Concept]) -> None:
    if concept.name in concepts:
        return
    concepts[concept.name] = concept
    for name in concept.parts:
        _add_with_parts(_concept(name), concepts)


def _concept(name: str) -> Concept:
    concept = concept_named(name)
    if concept is None:
        raise CannotExecute(
            f"There is no concept named {name!r}.\nGive names as the record has them instead."
        )
    return concept
