"""Every number that the executor computes stands in the answer in words."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.asking.record_answer import record_answer
from archqa.fhir import Store
from archqa.query import Chart, Query, execute
from archqa.query.wording.words import computed_text, number_text
from tests.fhir.invented import build_store
from tests.query.generated_queries import BENCHMARK_KINDS, queries
from tests.query.invented import random_record

RECORDS = 4
KINDS = [what for what in BENCHMARK_KINDS if what != "patient"]
"""Of a patient, there is nothing to count."""

LENGTHS = {"elapsed", "length_of_stay", "age"}
"""Computed in days, and written in hours, days, months and years."""

SHOWN_LINES = 12


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    stores = []
    for seed in range(RECORDS):
        folder = tmp_path_factory.mktemp("record")
        stores.append(build_store(folder, random_record(seed)))
    yield stores
    for store in stores:
        store.close()


def stands_in(number: float, text: str) -> bool:
    """A decrease is written without a sign: 1.7 less."""
    spellings = (number_text(number), computed_text(number), computed_text(abs(number)))
    return any(spelling in text for spelling in spellings)


@pytest.mark.parametrize("what", KINDS)
@settings(
    max_examples=30,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_every_number_of_an_answer_stands_in_its_words(
    what: str, data: st.DataObject, stores: list[Store]
) -> None:
    query = data.draw(queries(what))
    store = stores[data.draw(st.integers(0, RECORDS - 1))]
    chart = Chart(store, "p")

    def run(further: Query) -> object:
        return execute(further, store, "p", chart=chart)

    result = execute(query, store, "p", chart=chart)
    answer = record_answer(
        "?",
        [(query, result)],
        {"id": "p"},
        store,
        execute=run,  # type: ignore[arg-type]
    )
    numbers = set()
    for value in result.answer.values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers.add(value)
    if query.returns in LENGTHS or len(numbers) > SHOWN_LINES:
        return
    for number in numbers:
        is_absence = number == 0 and query.summary.startswith("count")
        assert is_absence or stands_in(number, answer.text)
