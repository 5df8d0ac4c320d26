"""The executor and the reference executor agree on random wards and random queries."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.query import Query, Row, execute, query_text
from tests.fhir.invented import build_store
from tests.query.generated_queries import BENCHMARK_KINDS, queries
from tests.query.invented import random_record
from tests.query.reference_executor import ReferenceExecutor

WARDS = 8


class Wards:
    """Random wards, one for each seed, and the stores that hold them."""

    def __init__(self, folder: Path) -> None:
        self.resources = [random_record(seed) for seed in range(WARDS)]
        self.stores = []
        for seed, resources in enumerate(self.resources):
            self.stores.append(build_store(folder / str(seed), resources))

    def __repr__(self) -> str:
        """A short text: a failing test prints the seed, which is enough."""
        return "Wards()"


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wards]:
    generated = Wards(tmp_path_factory.mktemp("wards"))
    yield generated
    for store in generated.stores:
        store.close()


@pytest.mark.parametrize("what", BENCHMARK_KINDS)
@settings(
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_answer_and_evidence_equal_those_of_the_reference_executor(
    what: str, data: st.DataObject, wards: Wards
) -> None:
    seed = data.draw(st.integers(0, WARDS - 1), label="ward")
    query = data.draw(queries(what), label="query")
    result = execute(query, wards.stores[seed], "p", "mimic-ehrsql")
    reference = ReferenceExecutor(wards.resources[seed], "p")
    values, ids = reference.answer(json.loads(query.model_dump_json()))
    evidence = {
        resource_type: set(names) for resource_type, names in result.evidence.items()
    }
    assert evidence == ids
    if not _is_ambiguous(query, result.rows):
        assert sorted(map(_rounded, result.answer.values)) == sorted(
            map(_rounded, values)
        )
    assert Query.model_validate_json(query.model_dump_json()) == query
    assert query_text(query)[0].isupper()
    assert query_text(query)[-1] in ".?"


def _is_ambiguous(query: Query, rows: tuple[Row, ...]) -> bool:
    """Whether several values of a side share the time: any of them may be compared."""
    if query.against is None or query.summary != "each":
        return False
    sides = [row.side for row in rows if row.chosen]
    return sides.count("own") > 1 or sides.count("other") > 1


def _rounded(value: object) -> str:
    """Numbers to five decimals: SQLite's days are no more precise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).strip()
    return f"{value:.5f}"
