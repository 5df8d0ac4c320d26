"""The concepts of the tables in `data/`."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple, TypeVar

from archqa.core.tables import read_rows, split_cell
from archqa.query.concepts.code_systems import normal_code, systems_by_name
from archqa.query.concepts.concept import Concept, ConceptKind, DisplayRule
from archqa.query.concepts.display_words import word_sets
from archqa.query.concepts.drug_names import Drug, read_drugs

Code = tuple[str, str]
Row = tuple[str, ...]
T = TypeVar("T")

_CONDITION_SYSTEMS = ("snomed", "icd10", "icd9")
_PROCEDURE_SYSTEMS = ("snomed", "icd10pcs", "icd9pcs")
_PARTS = -1
"""The column of parts is the last of every table that has one."""


class NamedConcept(NamedTuple):
    """A concept and the phrases that name it in a question."""

    concept: Concept
    phrases: tuple[str, ...]


@cache
def load_concepts() -> tuple[NamedConcept, ...]:
    """Return all concepts with their phrases: measurements first, then drugs, then the others."""
    classes = tuple(_drug_classes())
    return (
        *_measurements(),
        *_drugs(classes),
        *classes,
        *_conditions(),
        *_vaccines(),
        *_procedures(),
    )


def concept_named(kind: ConceptKind, name: str) -> Concept:
    """Return a concept by its name in the tables.

    Raises:
        KeyError: No concept of this kind has this name.
    """
    return _concepts_by_name()[kind, name]


@cache
def _concepts_by_name() -> dict[tuple[ConceptKind, str], Concept]:
    return {(named.concept.kind, named.concept.name): named.concept for named in load_concepts()}


def _measurements() -> Iterator[NamedConcept]:
    for name, phrases, codes, displays, unit, parts in read_rows(
        "query/concepts/data/measurements.tsv", 6
    ):
        alternatives = tuple(DisplayRule(words) for words in word_sets(displays))
        concept = Concept(
            kind="measurement",
            name=name,
            codes=_codes_of(codes, "loinc"),
            display_rules=alternatives,
            parts=split_cell(parts),
            unit=None if unit == "-" else unit,
        )
        yield NamedConcept(concept, split_cell(phrases))


def _drugs(classes: Iterable[NamedConcept]) -> Iterator[NamedConcept]:
    """Return the drugs; a phrase that names a whole class with the drug is left to the class."""
    ingredients_by_phrase = {
        phrase: named.concept.ingredients for named in classes for phrase in named.phrases
    }
    for drug in read_drugs():
        phrases = tuple(
            phrase
            for phrase in drug.phrases
            if drug.name not in ingredients_by_phrase.get(phrase, ())
        )
        concept = Concept(
            kind="drug",
            name=drug.name,
            codes=_rxnorm_codes(drug.rxnorm),
            ingredients=drug.ingredients,
        )
        yield NamedConcept(concept, phrases)


def _drug_classes() -> Iterator[NamedConcept]:
    rows = {row[0]: row for row in read_rows("query/concepts/data/drug_classes.tsv", 4)}
    for name, phrases, _, parts in rows.values():
        rules = _united(name, lambda row: split_cell(row[2]), rows)
        concept = Concept(
            kind="drug_class",
            name=name,
            codes=_rxnorm_codes_of(rules),
            ingredients=rules,
            parts=split_cell(parts),
        )
        yield NamedConcept(concept, split_cell(phrases))


def _conditions() -> Iterator[NamedConcept]:
    yield from _coded_concepts(_CodedTable("condition", "conditions.tsv", _CONDITION_SYSTEMS))


def _procedures() -> Iterator[NamedConcept]:
    yield from _coded_concepts(_CodedTable("procedure", "procedures.tsv", _PROCEDURE_SYSTEMS))


def _vaccines() -> Iterator[NamedConcept]:
    table = _CodedTable("vaccine", "vaccines.tsv", ("cvx",), has_past=False)
    yield from _coded_concepts(table)


class _CodedTable(NamedTuple):
    """A table with the columns name, phrases, codes by system, words, not, past and parts."""

    kind: ConceptKind
    file: str
    systems: tuple[str, ...]
    has_past: bool = True

    @property
    def columns(self) -> int:
        return self._words + 3 + self.has_past

    def codes(self, row: Row) -> tuple[Code, ...]:
        cells = zip(row[2:], self.systems, strict=False)
        return tuple(code for cell, system in cells for code in _codes_of(cell, system))

    def display_rules(self, row: Row) -> tuple[DisplayRule, ...]:
        words, excluded = row[self._words], word_sets(row[self._words + 1])
        return tuple(DisplayRule(each, excluded) for each in word_sets(words))

    def past_codes(self, row: Row) -> tuple[Code, ...]:
        return _codes_of(row[self._words + 2], "") if self.has_past else ()

    @property
    def _words(self) -> int:
        return 2 + len(self.systems)


def _coded_concepts(table: _CodedTable) -> Iterator[NamedConcept]:
    """Return the concepts of a table; each has the codes and words of its parts too."""
    rows = {row[0]: row for row in read_rows(f"query/concepts/data/{table.file}", table.columns)}
    for name, row in rows.items():
        concept = Concept(
            kind=table.kind,
            name=name,
            codes=_united(name, table.codes, rows),
            past_codes=_united(name, table.past_codes, rows),
            display_rules=_united(name, table.display_rules, rows),
            parts=split_cell(row[_PARTS]),
        )
        yield NamedConcept(concept, split_cell(row[1]))


def _united(
    name: str, of_row: Callable[[Row], tuple[T, ...]], rows: dict[str, Row]
) -> tuple[T, ...]:
    """Return what a row and all its parts have, each once."""
    united = dict.fromkeys(of_row(rows[name]))
    for part in split_cell(rows[name][_PARTS]):
        united.update(dict.fromkeys(_united(part, of_row, rows)))
    return tuple(united)


def _codes_of(cell: str, default_system: str) -> tuple[Code, ...]:
    """Return the codes of a cell; `icd10:Z853` names another system than the column's."""
    codes = []
    for entry in split_cell(cell, " "):
        name, colon, code = entry.partition(":")
        system = systems_by_name()[name if colon else default_system]
        codes.append((system.url, normal_code(system, code if colon else entry)))
    return tuple(codes)


def _rxnorm_codes_of(rules: tuple[str, ...]) -> tuple[Code, ...]:
    """Return the codes of the ingredients that belong to a class in every form."""
    drugs = _drugs_by_name()
    unrestricted = [rule for rule in rules if "@" not in rule and rule in drugs]
    return tuple(code for name in unrestricted for code in _rxnorm_codes(drugs[name].rxnorm))


def _rxnorm_codes(code: str) -> tuple[Code, ...]:
    return ((systems_by_name()["rxnorm"].url, code),) if code else ()


@cache
def _drugs_by_name() -> dict[str, Drug]:
    return {drug.name: drug for drug in read_drugs()}
