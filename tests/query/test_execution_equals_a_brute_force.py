"""Over random wards and random queries the executor finds what a computation by hand finds, answers and ids."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.query import Query, execute
from archqa.query.model import RETURNABLE_FIELDS
from tests.fhir.invented import build_store
from tests.query.by_hand import ReferenceExecutor
from tests.query.invented import random_record
from tests.query.questions import queries

WARDS = 8


class Wards:
    """Random wards, and the stores that hold them. Not shown when a test fails: the seed says it."""

    def __init__(self, folder: Path) -> None:
        self.resources = [random_record(seed) for seed in range(WARDS)]
        self.stores = [
            build_store(folder / str(seed), each) for seed, each in enumerate(self.resources)
        ]

    def __repr__(self) -> str:
        return "Wards()"


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wards]:
    generated = Wards(tmp_path_factory.mktemp("wards"))
    yield generated
    for store in generated.stores:
        store.close()


@pytest.mark.parametrize("what", sorted(RETURNABLE_FIELDS))
@settings(
    max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(data=st.data())
def test_answer_and_ids_are_those_computed_by_hand(
    what: str, data: st.DataObject, wards: Wards
) -> None:
    seed = data.draw(st.integers(0, WARDS - 1), label="ward")
    query = data.draw(queries(what), label="query")
    result = execute(query, wards.stores[seed], "p", "mimic-ehrsql")
    values, ids = ReferenceExecutor(wards.resources[seed], "p").answer(
        json.loads(query.model_dump_json())
    )
    assert {kind: set(names) for kind, names in result.evidence.items()} == ids
    if not _is_ambiguous(query, result.rows):
        assert _sorted(map(_plain, result.answer.values)) == _sorted(map(_plain, values))
    assert Query.model_validate_json(query.model_dump_json()) == query
    assert query.sentence[0].isupper()
    assert query.sentence[-1] in ".?"


def _is_ambiguous(query: Query, rows: object) -> bool:
    """A comparison where several values share the time: any of them may be taken."""
    assert isinstance(rows, tuple)
    if query.against is None or query.summary != "each":
        return False
    return any(
        len([row for row in rows if row.chosen and row.side == side]) > 1
        for side in ("own", "other")
    )


def _plain(value: object) -> str:
    """Numbers to seven digits: SQLite's days have no more."""
    return (
        f"{value:.5f}"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else str(value).strip()
    )


def _sorted(values: Iterator[str]) -> list[str]:
    return sorted(values)
