"""Which rows a query names: by the names and codes of the record, or by concepts."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from archqa.core.near_misses import near_misses
from archqa.fhir import CodeCount
from archqa.fhir.values.text import normalise_text
from archqa.query.conventions import Conventions
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS, LISTS
from archqa.query.model import CannotExecute, Query
from archqa.terminology.codes import matches_code, measurements_coded
from archqa.terminology.concept import Concept, ConceptKind
from archqa.terminology.concepts import concept_named, find_concepts, load_concepts
from archqa.terminology.labels import without_specimen
from archqa.terminology.words import common_form

_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_WORD_CHARACTER = re.compile(r"\w")
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

Code = tuple[str, str]
"""System and code."""

_MAX_NEAREST = 4
"""Concepts that the error for an unknown one names."""


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
            if what in LISTS["full_name_first"]:
                names_by_words = names_by_words.difference(map(_folded, record_names))
            self._word_sets = list(map(_words, names_by_words))

    def __call__(self, *names: str) -> bool:
        """Whether the query means one of a row's names."""
        if not self._query_names:
            return True
        for name in map(_folded, names):
            if name in self._query_names:
                return True
            if self._word_sets:
                name_words = _words(name)
                if any(words and words <= name_words for words in self._word_sets):
                    return True
        return False


@lru_cache(maxsize=16384)
def _folded(name: str) -> str:
    return name.strip().lower()


@lru_cache(maxsize=16384)
def _words(name: str) -> frozenset[str]:
    """The words of a name in common form: "peanuts" is "Peanut", "berries" is "berry"."""
    return frozenset(map(common_form, _WORD.findall(normalise_text(name))))


@dataclass(frozen=True)
class ConceptMatcher:
    """Which rows the concepts of a query mean, their parts included. Without concepts: none.

    `past`: a history of a condition counts, too. `in_text`: a text without a code means every
    concept that it mentions, as a goal does: "Maintain blood pressure below 140/90". Raises
    `CannotExecute` for a name of no concept.
    """

    concepts: tuple[Concept, ...]
    past: bool = False
    in_text: bool = False

    @property
    def parts(self) -> tuple[Concept, ...]:
        """The parts of the one measurement that consists of several, such as a blood pressure.

        Of the vital signs, also the parts of the blood pressure, which is one of them.
        """
        if len(self.concepts) != 1 or self.concepts[0].kind != "measurement":
            return ()
        return self._with_parts[1:]

    @cached_property
    def _with_parts(self) -> tuple[Concept, ...]:
        concepts: dict[str, Concept] = {}
        remaining = list(self.concepts)
        while remaining:
            concept = remaining.pop(0)
            if concept.name not in concepts:
                concepts[concept.name] = concept
                remaining = [
                    *concepts_named(concept.parts, (concept.kind,)),
                    *remaining,
                ]
        return tuple(concepts.values())

    def concept_of(self, codings: Iterable[Coding]) -> Concept | None:
        """The first concept, or part of one, that the codings mean."""
        codings = tuple(codings)
        for coding in codings:
            mentioned: list[Concept] = []
            if coding.display and not coding.code:
                if self.in_text:
                    mentioned = [
                        match.concept for match in find_concepts(coding.display)
                    ]
                else:
                    mentioned = _things_called(coding.display)
            for concept in self._with_parts:
                if concept.kind == "measurement":
                    is_coded = concept in measurements_coded(codings)
                else:
                    is_coded = matches_code(concept, *coding, past=self.past)
                if is_coded or concept in mentioned:
                    return concept
        return None

    def matches_allergy(self, row: Row) -> bool:
        """Whether an allergy is to one of the concepts, or to a class of drugs that one is of."""
        if self.concept_of(row.codings) is not None:
            return True
        ingredients = _ingredients(self.concepts)
        for name in row.names:
            mentioned = [match.concept for match in find_concepts(name)]
            classes = [concept for concept in mentioned if concept.kind == "drug_class"]
            if not ingredients.isdisjoint(_ingredients(classes)):
                return True
        return False


def concepts_named(
    names: Iterable[str], kinds: tuple[ConceptKind, ...]
) -> tuple[Concept, ...]:
    """The concepts of these names; of several with one name, that of the earliest kind.

    Raises `CannotExecute` for a name of no concept.
    """
    kinds_in_order = dict.fromkeys((*kinds, *ALL_CONCEPT_KINDS))
    concepts = []
    for name in names:
        for kind in kinds_in_order:
            with suppress(KeyError):
                concepts.append(concept_named(kind, name))
                break
        else:
            raise CannotExecute(
                f"There is no concept named {name!r}.\nGive names as the record has them instead."
            )
    return tuple(concepts)


def _ingredients(concepts: Iterable[Concept]) -> set[str]:
    ingredients: set[str] = set()
    for concept in concepts:
        ingredients.update(name.partition("@")[0] for name in concept.ingredients)
    return ingredients


class Wanted(NamedTuple):
    """The names and concepts of one side of a query: either suffices; without any, all rows."""

    names: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " or ".join(map(repr, (*self.concepts, *self.names)))


EVERYTHING = Wanted()


def concept_matcher(
    context: ExecutionContext, what: str, wanted: Wanted
) -> ConceptMatcher:
    """Which rows of a kind the concepts of one side of a query mean."""
    return ConceptMatcher(
        concepts_named(wanted.concepts, KINDS[what].concepts),
        past=context.query.state != "current",
        in_text=what == "goal",
    )


class RowTest:
    """Which rows of a kind a query wants. `record_names` are those that the rows of it have."""

    def __init__(
        self,
        context: ExecutionContext,
        what: str,
        wanted: Wanted,
        record_names: Iterable[str],
    ) -> None:
        self._what = what
        self._has_names = bool(wanted.names)
        self._names = NameMatcher(wanted.names, record_names, context.conventions, what)
        self._concepts = concept_matcher(context, what, wanted)
        self._is_of_specimen = what == "observation" and context.query.specimens

    def matches(self, codings: Iterable[Coding], names: Iterable[str]) -> bool:
        """Whether one of the names, or one of the codes, is wanted."""
        if not self._has_names and not self._concepts.concepts:
            return True
        if self._has_names and self._names(*names):
            return True
        if self._concepts.concept_of(codings) is not None:
            return True
        if not self._is_of_specimen:
            return False
        # `Leukocytes, Urine` are leukocytes where the specimen is a limit of its own.
        plain = (Coding("", "", without_specimen(name)) for name in names)
        return self._concepts.concept_of(plain) is not None

    def matches_row(self, row: Row) -> bool:
        """Whether a row is wanted; a component also by the name of its panel."""
        if self.matches(row.codings, (*row.names, *row.fact("panel"))):
            return True
        return self._what == "allergy" and self._concepts.matches_allergy(row)


class CodeTest:
    """Which codes of a record a query wants; it collects them, for rows with other displays."""

    def __init__(
        self,
        context: ExecutionContext,
        what: str,
        wanted: Wanted,
        codes: Iterable[CodeCount],
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
    if wanted == EVERYTHING:
        return list(rows)
    if code_test is None:
        record_names = chain.from_iterable(row.names for row in rows)
        test = RowTest(context, what, wanted, record_names)
        codes: set[Code] = set()
    else:
        test = code_test.rows
        codes = set(code_test.codes)
    named = [row for row in rows if test.matches_row(row)]
    if not KINDS[what].one_code or not context.conventions.one_code_is_one_thing:
        return named
    named_ids = set(map(id, named))
    codes.update(*map(_codes, named))
    return [
        row for row in rows if id(row) in named_ids or not codes.isdisjoint(_codes(row))
    ]


def _codes(row: Row) -> set[Code]:
    """The codes of a row. Those of products are none: hospitals order several things by one."""
    codes = set()
    for coding in row.codings:
        if coding.code and not coding.system.lower().endswith("ndc"):
            codes.add((coding.system, coding.code))
    return codes


def concepts_called(words: str) -> list[Concept]:
    """The concepts that the words as a whole name."""
    concepts = []
    for match in find_concepts(words):
        surroundings = words[: match.start] + words[match.end :]
        if not _WORD_CHARACTER.search(surroundings):
            concepts.append(match.concept)
    return concepts


@lru_cache(maxsize=16384)
def _things_called(text: str) -> list[Concept]:
    """The concepts that a text as a whole names. Of measurements, labels tell more than their names."""
    return [
        concept for concept in concepts_called(text) if concept.kind != "measurement"
    ]


def with_concept_names(query: Query) -> Query:
    """The query with the names of concepts in place of other phrases for them.

    Raises `CannotExecute` for a phrase that names no concept of the kind of rows.
    """
    changes: dict[str, object] = {"concepts": _named(query.concepts, query.what)}
    if query.against is not None:
        against = {"concepts": _named(query.against.concepts, query.what)}
        changes["against"] = query.against.model_copy(update=against)
    if query.companion is not None:
        companion = {"concepts": _named(query.companion.concepts, query.companion.what)}
        changes["companion"] = query.companion.model_copy(update=companion)
    return query.model_copy(update=changes)


def _named(phrases: Iterable[str], what: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_concept_name(phrase, what) for phrase in phrases))


def _concept_name(phrase: str, what: str) -> str:
    """The name of the concept that a phrase means: its own, else of the first kind that has one."""
    name = " ".join(phrase.lower().split())
    called = [concept for concept in load_concepts() if concept.name == name]
    called += concepts_called(phrase)
    for kind in KINDS[what].concepts:
        for concept in called:
            if concept.kind == kind:
                return concept.name
    raise _not_a_concept(phrase, what, called)


def _not_a_concept(phrase: str, what: str, called: Sequence[Concept]) -> CannotExecute:
    """The error for a phrase that names no concept of a kind of rows, with the nearest names."""
    kinds = KINDS[what].concepts
    allowed = " or ".join(kind.replace("_", " ") for kind in kinds)
    problem = f"No {allowed} of the tables is called {phrase!r}"
    if not kinds:
        problem = (
            f"Rows of {what} are named by names, not by a concept such as {phrase!r}"
        )
    elif called:
        kind_text = called[0].kind.replace("_", " ")
        problem = f"{phrase!r} is a {kind_text}, but a concept of {what} is a {allowed}"
    mentioned = [match.concept for match in find_concepts(phrase)]
    nearest = [concept.name for concept in mentioned if concept.kind in kinds]
    names = (concept.name for concept in load_concepts() if concept.kind in kinds)
    nearest += near_misses(phrase, names, count=_MAX_NEAREST)
    advice = "What no concept names goes into names, in the words of the record."
    if nearest:
        listed = ", ".join(dict.fromkeys(nearest[:_MAX_NEAREST]))
        advice = f"The nearest concepts: {listed}. {advice}"
    return CannotExecute(f"{problem}.\n{advice}")


def is_concept_name(name: str) -> bool:
    """Whether a concept has this name in the tables."""
    return name in _all_names()


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
        part_rows = []
        for row in rows:
            if part in measurements_coded(row.codings):
                part_rows.append(row)
        if part_rows:
            all_series.append(Series(part.name, part_rows))
    return all_series or [Series("", list(rows))]


def first_and_last(rows: Sequence[Row], matcher: ConceptMatcher) -> list[Row]:
    """Of each series in the order of time, the first and the last row with a number."""
    chosen: list[Row] = []
    for series in series_by_part(rows, matcher):
        measured = [
            row for row in series.rows if row.value is not None and row.time is not None
        ]
        chosen += measured[:1]
        chosen += measured[1:][-1:]
    return chosen
