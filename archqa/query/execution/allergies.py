"""What the entry of an allergy states: an allergy, that none is known, or that nobody could tell."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

from archqa.fhir import Resource
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.declared_rows import (
    declared_row,
    declared_rows,
    source_resources,
)
from archqa.query.execution.rows import Row
from archqa.query.kinds import CONDITION, OBSERVATION, Source
from archqa.terminology.concept import DRUG_KINDS
from archqa.terminology.concepts import concept_named, find_concepts
from archqa.terminology.cues import names_by_code
from archqa.terminology.words import common_forms, word_list

Scope = Literal["all", "drug", "food", "environment", "latex", "named"]
"""What an entry is about; `named`: the substances of its name ("No known allergy to aspirin")."""

_SCOPES: tuple[Scope, ...] = ("drug", "food", "environment", "latex")
_LIST = Source(type="List", names=("emptyReason",), times=("date",), optional=True)


class AllergyStatement(NamedTuple):
    """Whether an entry states an allergy, denies allergies, or says that nobody could tell."""

    kind: Literal["allergy", "denied", "not_assessed"]
    scope: Scope = "all"


_ALLERGY = AllergyStatement("allergy", "named")


def allergy_statement(row: Row) -> AllergyStatement:
    """What a row states, by its codes and by the words of its name."""
    for coding in row.codings:
        scope = names_by_code("no known allergy").get(coding.code)
        if scope:
            return AllergyStatement("denied", cast("Scope", scope))
    for text in (row.name, *(coding.display or coding.code for coding in row.codings)):
        statement = stated_by(text)
        if statement.kind != "allergy":
            return statement
    return _ALLERGY


def stated_by(text: str) -> AllergyStatement:
    """What the name of an entry states."""
    words = common_forms(text)
    unknown = word_list("allergy unknown").intersection(words)
    scope: Scope = "all"
    for narrower in reversed(_SCOPES):
        if not word_list(f"allergy {narrower}").isdisjoint(words):
            scope = narrower
    if "unable" in words:
        return AllergyStatement("not_assessed", scope)
    none = word_list("allergy none").intersection(words)
    general = word_list("allergy general", *(f"allergy {name}" for name in _SCOPES))
    if not none | unknown | general >= set(words):
        # "No known allergy to aspirin" is about aspirin; "unknown antibiotic" is an allergen.
        denies = bool(words) and words[0] in none
        return AllergyStatement("denied", "named") if denies else _ALLERGY
    if unknown or ("not" in words and "allergic" not in words):
        return AllergyStatement("not_assessed", scope)
    return AllergyStatement("denied", scope) if none else _ALLERGY


def covers(scope: Scope, concepts: tuple[str, ...]) -> bool:
    """Whether what an entry says of all substances of a scope says it of the concepts."""
    if scope == "drug":
        return bool(concepts) and all(map(_is_drug, concepts))
    return scope == "all"


def _is_drug(concept: str) -> bool:
    for kind in DRUG_KINDS:
        try:
            concept_named(kind, concept)
        except KeyError:
            continue
        return True
    return False


def contradicts(row: Row, scope: Scope) -> bool:
    """Whether an allergy is one of those that an entry denies as a whole."""
    if scope != "drug":
        return scope == "all"
    mentioned = [match for name in row.names for match in find_concepts(name)]
    return any(match.concept.kind in DRUG_KINDS for match in mentioned)


def allergies(context: ExecutionContext) -> list[Row]:
    """Rows of allergies, and what other resources say of there being none."""
    rows = declared_rows(context, "allergy")
    if context.conventions.statuses == "ignored":
        return rows
    chart = context.chart
    elsewhere = chart.get_or_compute(
        "denied allergies", lambda: list(_denials_elsewhere(chart))
    )
    return [*rows, *elsewhere]


def _denials_elsewhere(chart: Chart) -> Iterator[Row]:
    """Conditions, results and empty lists by which no allergy is known, or nobody could tell."""
    for source, resources in (
        (CONDITION, chart.search("Condition")),
        (_AS_RESULT, _results_on_allergies(chart)),
        (_LIST, filter(_is_of_allergies, source_resources(chart, _LIST))),
    ):
        for resource in resources:
            row = declared_row(chart, source, resource)
            statement = allergy_statement(row)
            if statement.kind == "allergy":
                continue
            if source is not CONDITION or _mentions_allergies(row):
                yield row


def _mentions_allergies(row: Row) -> bool:
    words = common_forms(" ".join(row.names))
    return any(word.startswith(("allerg", "nk")) for word in words)


_AS_RESULT = OBSERVATION._replace(names=("valueCodeableConcept", "valueString", "code"))
_ALLERGIES_DOCUMENT = "48765-2"
"""LOINC: allergies and adverse reactions, the code of a list of them."""


def _results_on_allergies(chart: Chart) -> list[Resource]:
    results = chart.results_about("allerg")
    return [result for result in results if result.get("valueBoolean") is not False]


def _is_of_allergies(resource: Resource) -> bool:
    described = f"{resource.get('title')} {resource.get('code')}"
    return "allerg" in described.lower() or _ALLERGIES_DOCUMENT in described
