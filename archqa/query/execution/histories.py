"""Allergies, vaccines and diseases of relatives: histories that several types of resources record.

An entry of an allergy states an allergy, that none is known, or that nobody could tell. A vaccine
that two resources record on one day is one. A relative's disease may be a family history, or a
problem or result that is named so.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple, cast

from archqa.fhir import Resource
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.declared_rows import (
    declared_row,
    declared_rows,
    source_resources,
)
from archqa.query.execution.elements import objects_at, text_at
from archqa.query.execution.rows import Coding, Row
from archqa.query.execution.statuses import is_fact, result_flags
from archqa.query.kinds import (
    CONDITION,
    MEDICATION_ADMINISTRATION,
    MEDICATION_DISPENSE,
    OBSERVATION,
    PROCEDURE,
    RowKind,
    Source,
)
from archqa.query.values import Value
from archqa.terminology.codes import matches_code
from archqa.terminology.concept import DRUG_KINDS
from archqa.terminology.concepts import (
    concept_named,
    find_concepts,
    load_concepts,
    related,
)
from archqa.terminology.cues import names_by_code
from archqa.terminology.people import relatives_coded, relatives_named
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
        (_ALLERGY_RESULT, _results_on_allergies(chart)),
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


_ALLERGY_RESULT = OBSERVATION._replace(
    names=("valueCodeableConcept", "valueString", "code")
)
_ALLERGIES_DOCUMENT = "48765-2"
"""LOINC: allergies and adverse reactions, the code of a list of them."""


def _results_on_allergies(chart: Chart) -> list[Resource]:
    results = chart.results_about("allerg")
    return [result for result in results if result.get("valueBoolean") is not False]


def _is_of_allergies(resource: Resource) -> bool:
    described = f"{resource.get('title')} {resource.get('code')}"
    return "allerg" in described.lower() or _ALLERGIES_DOCUMENT in described


_ELSEWHERE: tuple[tuple[RowKind, Source], ...] = (
    ("administration", MEDICATION_ADMINISTRATION),
    ("medication", MEDICATION_DISPENSE),
    ("procedure", PROCEDURE),
)
"""Kinds and sources of rows that may be a vaccine."""


def immunizations(context: ExecutionContext) -> list[Row]:
    """Rows of vaccines. What was given or done and names a vaccine is one, too."""
    return _with_other_rows(
        context,
        "immunization",
        lambda chart, rows: _without_repeated_shots([*rows, *_given_elsewhere(chart)]),
    )


def _given_elsewhere(chart: Chart) -> Iterator[Row]:
    for kind, source in _ELSEWHERE:
        codes = chart.codes(source.type)
        if not any(_vaccines(c.system, c.code, c.display) for c in codes):
            continue  # Drugs that were given are many.
        for resource in source_resources(chart, source):
            row = declared_row(chart, source, resource)
            if is_fact(kind, row) and _vaccines_of(row):
                yield row


def _vaccines_of(row: Row) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for coding in row.codings:
        names |= _vaccines(*coding)
    return names


def _vaccines(system: str, code: str, display: str | None) -> frozenset[str]:
    """The names of the vaccines that a coding names."""
    names = []
    for concept in load_concepts():
        if concept.kind == "vaccine" and matches_code(concept, system, code, display):
            names.append(concept.name)
    return frozenset(names)


def _without_repeated_shots(rows: list[Row]) -> list[Row]:
    """The rows; a vaccine that two resources record on one day is one row with both."""
    shots: list[Row] = []
    for row in rows:
        same = None
        for place, shot in enumerate(shots):
            if _is_same_shot(row, shot):
                same = place
        if same is None:
            shots.append(row)
        else:
            refs = (*shots[same].refs, *row.refs)
            shots[same] = replace(shots[same], refs=refs)
    return shots


def _is_same_shot(row: Row, shot: Row) -> bool:
    if row.local_time is None or shot.local_time is None:
        return False
    if row.local_time.date() != shot.local_time.date():
        return False
    if not is_fact("immunization", row) or not is_fact("immunization", shot):
        return False
    if row.names == shot.names:
        return True
    # Two entries of one type are two vaccines: DTaP and Td share what they protect from.
    types = {ref.partition("/")[0] for ref in (row.refs[0], shot.refs[0])}
    return len(types) > 1 and bool(_vaccines_of(row) & _vaccines_of(shot))


_OF_FAMILY = re.compile(
    r"\b(?:family (?:medical )?(?:history|hx)|fam hx|fhx?)\b(?: of)?\W*", re.IGNORECASE
)
_ANOTHER = "another"
"""A relative that no question names, such as a mother-in-law."""

_FAMILY_RESULT = OBSERVATION._replace(values=("valueCodeableConcept", "valueString"))


def family_history(context: ExecutionContext) -> list[Row]:
    """Rows of conditions of relatives, each with the fact `relative` where it is known."""
    return _with_other_rows(context, "family_history", _rows_of_relatives)


def _with_other_rows(
    context: ExecutionContext,
    kind: RowKind,
    gather: Callable[[Chart, list[Row]], Iterable[Row]],
) -> list[Row]:
    """Rows of a kind together with those that `gather` finds under other types of resources.

    A benchmark's conventions, which ignore statuses, count only the kind's own type.
    """
    rows = declared_rows(context, kind)
    if context.conventions.statuses == "ignored":
        return rows
    chart = context.chart
    return chart.get_or_compute(kind, lambda: list(gather(chart, rows)))


def _rows_of_relatives(chart: Chart, rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        relatives = relatives_named(row.text)
        entry = chart.resolver.resolve(row.refs[0])
        for coding in objects_at(entry, "relationship.coding"):
            relatives = (*relatives, *relatives_coded(text_at(coding, "code")))
        yield _of_relatives(row, relatives)
    for condition in chart.search("Condition"):
        yield from _named_after_family(declared_row(chart, CONDITION, condition))
    for result in chart.results_about("family"):
        row = declared_row(chart, _FAMILY_RESULT, result)
        is_denied = result.get("valueBoolean") is False
        if not is_denied and "negative" not in result_flags(
            result, Value(text=row.text)
        ):
            yield from _named_after_family(_with_value_as_name(row))


def _with_value_as_name(row: Row) -> Row:
    """A result "Family history" with its condition, which is the value."""
    match = _OF_FAMILY.search(row.name)
    if match is None or match.end() < len(row.name) or not row.text:
        return replace(row, text="")
    coding = Coding("", "", f"{row.name}: {row.text}")
    return replace(row, codings=(coding, *row.codings))


def _named_after_family(row: Row) -> Iterator[Row]:
    """The row of a condition or a result that a relative has, as its name or code says."""
    for coding in row.codings:
        match = _OF_FAMILY.search(coding.display)
        name = coding.display[match.end() :] if match else ""
        for concept, codes in related("family history code").items():
            if coding.code.replace(".", "").startswith(codes):
                name = concept
        if match or name:
            codings = (Coding("", "", name), *row.codings)
            named = replace(row, codings=codings)
            yield _of_relatives(named, relatives_named(name))
            return


def _of_relatives(row: Row, relatives: tuple[str, ...]) -> Row:
    """The row with its relatives, and the wider words for them: a mother is a parent."""
    groups: list[str] = []
    for relative in relatives:
        groups += related("relative group").get(relative, ())
    names = tuple(dict.fromkeys((*relatives, *groups)))
    if not names and not row.text:
        return row
    return replace(row, facts={**row.facts, "relative": names or (_ANOTHER,)})
