"""The declarations of the kinds of rows agree with each other and with the types of a query."""

import itertools
from typing import get_args

import pytest

from archqa.query.kinds import ERROR, KINDS, KindOfRows, ReturnedField, RowKind
from archqa.query.model import Query
from archqa.query.wording.queries import query_text
from archqa.terminology.concept import ConceptKind

DECLARATIONS = list(KINDS.values())


def test_every_kind_of_row_is_declared_once() -> None:
    assert sorted(KINDS) == sorted(get_args(RowKind))


def test_rows_have_concepts_of_all_kinds_but_findings_of_sentences() -> None:
    kinds = {concept for kind in DECLARATIONS for concept in kind.concepts}
    stated = {"finding", "organism", "device"}
    assert kinds == set(get_args(ConceptKind)) - stated


@pytest.mark.parametrize("kind", DECLARATIONS, ids=lambda kind: kind.what)
def test_every_returned_field_is_one_of_a_query(kind: KindOfRows) -> None:
    assert kind.returns <= frozenset(get_args(ReturnedField))


@pytest.mark.parametrize("kind", DECLARATIONS, ids=lambda kind: kind.what)
def test_every_declared_field_can_be_returned(kind: KindOfRows) -> None:
    fields = [fact for source in kind.sources for fact, _ in source.facts]
    of_encounters = {"visit_type", "admission_source", "discharge_destination"}
    instead_of_dates = {"age_at_time", "time_text", "end_text"}
    assert set(fields) <= kind.returns | of_encounters | instead_of_dates


@pytest.mark.parametrize("kind", DECLARATIONS, ids=lambda kind: kind.what)
def test_a_status_means_one_thing(kind: KindOfRows) -> None:
    for source in kind.sources:
        statuses = source.statuses
        meanings = (
            statuses.no_fact,
            statuses.current,
            statuses.ended,
            frozenset({ERROR}),
        )
        for one, other in itertools.combinations(meanings, 2):
            assert one.isdisjoint(other)


@pytest.mark.parametrize("kind", DECLARATIONS, ids=lambda kind: kind.what)
def test_every_kind_of_row_stands_in_a_sentence(kind: KindOfRows) -> None:
    query = Query(what=kind.what, summary="count", now="2026-01-01")
    assert (kind.plural if kind.what != "patient" else "the patient") in query_text(
        query
    )
