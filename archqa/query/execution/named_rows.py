"""Which rows a query names: by the names and codes of the record, or by concepts."""

import re
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from archqa.fhir import CodeCount
from archqa.fhir.values.text import normalise_text
from archqa.query.conventions import Conventions
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS
from archqa.query.model import CannotExecute, Query
from archqa.terminology.codes import matches_code
from archqa.terminology.concept import Concept, ConceptKind
from archqa.terminology.concepts import concept_named, find_concepts, load_concepts

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_FULL_NAME_FIRST = frozenset(
    {"lab", "vital", "output", "microbiology_test", "organism", "susceptibility", "care_unit"}
)


class NameMatcher:
    """Which names of the record the names in a query mean. Without query names: all of them."""

    def __init__(
        self,
        query_names: Iterable[str],
        record_names: Iterable[str],
        conventions: Conventions,
        what: str = "",
    ) -> None:
        self._query_names = {_folded(name) for name in query_names}
        self._word_sets: list[frozenset[str]] = []
        if conventions.name_matching == "words":
            names_by_words = self._query_names
            if what in _FULL_NAME_FIRST:
                names_by_words = names_by_words.difference(map(_folded, record_names))
            self._word_sets = list(map(_words, names_by_words))

    def __call__(self, *names: str) -> bool:
        """Whether the query means one of a row's names."""
        if not self._query_names:
            return True
        return any(self._matches(_folded(name)) for name in names)

    def _matches(self, name: str) -> bool:
        if name in self._query_names:
            return True
        if not self._word_sets:
            return False
        name_words = _words(name)
        return any(words and words <= name_words for words in self._word_sets)


@lru_cache(maxsize=16384)
def _folded(name: str) -> str:
    return name.strip().lower()


@lru_cache(maxsize=16384)
def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(normalise_text(name)))


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


Code = tuple[str, str]
"""System and code."""


class Wanted(NamedTuple):
    """The names and concepts of one side of a query: either suffices; without any, all rows."""

    names: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether no name is asked for."""
        return not self.names and not self.concepts

    def __str__(self) -> str:
        return " or ".join(map(repr, (*self.concepts, *self.names)))


class RowTest:
    """Which rows of a kind a query wants. `record_names` are those that the rows of it have."""

    def __init__(
        self, context: ExecutionContext, what: str, wanted: Wanted, record_names: Iterable[str]
    ) -> None:
        self._what = what
        self._has_names = bool(wanted.names)
        self._names = NameMatcher(wanted.names, record_names, context.conventions, what)
        concepts = concepts_of_rows(wanted.concepts, what)
        self._concepts = ConceptMatcher(
            concepts, past=context.query.state != "current", in_text=what == "goal"
        )

    def matches(self, codings: Iterable[Coding], names: Iterable[str]) -> bool:
        """Whether one of the names, or one of the codes, is wanted."""
        if not self._has_names and not self._concepts:
            return True
        if self._has_names and self._names(*names):
            return True
        return self._concepts.matches(codings)

    def matches_row(self, row: Row) -> bool:
        """Whether a row is wanted; a component also by the name of its panel."""
        if self.matches(row.codings, (*row.names, *row.facts.get("panel", ()))):
            return True
        return self._what == "allergy" and self._concepts.matches_allergy(row)


class CodeTest:
    """Which codes of a record a query wants; it collects them, for rows with other displays."""

    def __init__(
        self, context: ExecutionContext, what: str, wanted: Wanted, codes: Iterable[CodeCount]
    ) -> None:
        codes = list(codes)
        displays = [code.display for code in codes]
        self.rows = RowTest(context, what, wanted, displays)
        self.codes: set[Code] = set()
        for code in codes:
            coding = Coding(code.system, code.code, code.display)
            if self.rows.matches((coding,), (code.display or code.code,)):
                self.codes.add((code.system, code.code))

    def __call__(self, code: CodeCount) -> bool:
        """Whether a code is wanted, be it by another of its displays."""
        return (code.system, code.code) in self.codes


def select_named(
    context: ExecutionContext,
    what: str,
    rows: Sequence[Row],
    wanted: Wanted,
    code_test: CodeTest | None = None,
) -> list[Row]:
    """The wanted rows; by the conventions, also those that share a code with one of them.

    `code_test`: where the rows are not all of the record, what its codes say.
    """
    if wanted.is_everything:
        return list(rows)
    if code_test is None:
        test = RowTest(context, what, wanted, _names_of(rows))
        codes: set[Code] = set()
    else:
        test = code_test.rows
        codes = code_test.codes
    named = [row for row in rows if test.matches_row(row)]
    if not KINDS[what].one_code or not context.conventions.one_code_is_one_thing:
        return named
    return _with_codes(rows, named, codes)


def _names_of(rows: Iterable[Row]) -> list[str]:
    names: list[str] = []
    for row in rows:
        names += row.names
    return names


def _with_codes(rows: Sequence[Row], named: Sequence[Row], codes: Iterable[Code]) -> list[Row]:
    """The named rows, and those that have one of the codes or share one with a named row."""
    wanted_codes = set(codes).union(*map(_codes, named))
    named_ids = set(map(id, named))
    return [row for row in rows if id(row) in named_ids or not wanted_codes.isdisjoint(_codes(row))]


def _codes(row: Row) -> set[Code]:
    """The codes of a row. Those of products are none: hospitals order several things by one."""
    return {
        (coding.system, coding.code)
        for coding in row.codings
        if coding.code and not coding.system.lower().endswith("ndc")
    }


_WORD_CHARACTER = re.compile(r"\w")


def concepts_called(words: str) -> list[Concept]:
    """The concepts that the words as a whole name."""
    return [
        match.concept
        for match in find_concepts(words)
        if not _WORD_CHARACTER.search(words[: match.start])
        and not _WORD_CHARACTER.search(words[match.end :])
    ]


def with_concept_names(query: Query) -> Query:
    """The query with the names of concepts in place of other phrases for them.

    A phrase for no concept is a name of rows: archqa has no concept of most brands.
    """
    changes = _named(query.concepts, query.names, query.what)
    if query.against is not None:
        against = _named(query.against.concepts, query.against.names, query.what)
        changes["against"] = query.against.model_copy(update=against)
    if query.companion is not None:
        other = query.companion
        companion = _named(other.concepts, other.names, other.what)
        changes["companion"] = other.model_copy(update=companion)
    return query.model_copy(update=changes)


def _named(phrases: Iterable[str], names: Iterable[str], what: str) -> dict[str, object]:
    """The fields `concepts` and `names` of a limit whose concepts are called by these phrases."""
    called = dict.fromkeys(_name(phrase, KINDS[what].concepts) for phrase in phrases)
    concepts = [name for name in called if name in _all_names()]
    others = [name for name in called if name not in _all_names()]
    return {"concepts": tuple(concepts), "names": tuple(dict.fromkeys((*names, *others)))}


def _name(phrase: str, kinds: tuple[ConceptKind, ...]) -> str:
    """The name of the concept that a phrase means: its own, else of the first kind that has one."""
    own_name = " ".join(phrase.lower().split())
    if own_name in _all_names():
        return own_name
    called = concepts_called(phrase)
    for kind in dict.fromkeys((*kinds, *ALL_CONCEPT_KINDS)):
        for concept in called:
            if concept.kind == kind:
                return concept.name
    return phrase


@cache
def _all_names() -> frozenset[str]:
    return frozenset(concept.name for concept in load_concepts())


class Series(NamedTuple):
    """The rows of one part, and its name; the only series of what has no parts has no name."""

    name: str
    rows: list[Row]


def series_by_part(rows: Sequence[Row], matcher: ConceptMatcher) -> list[Series]:
    """At least one series; rows of no part, such as a panel itself, are in none of several."""
    all_series = []
    for part in matcher.parts:
        part_rows = [row for row in rows if any(is_coded(part, code) for code in row.codings)]
        if part_rows:
            all_series.append(Series(part.name, part_rows))
    return all_series or [Series("", list(rows))]


def first_and_last(rows: Sequence[Row], matcher: ConceptMatcher) -> list[Row]:
    """Of each series in the order of time, the first and the last row with a number."""
    chosen: list[Row] = []
    for series in series_by_part(rows, matcher):
        measured = [row for row in series.rows if row.value is not None and row.time is not None]
        chosen += measured[:1]
        chosen += measured[1:][-1:]
    return chosen
