"""Malformed resources never end a question in a traceback."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from archqa.asking.record_answer import record_answer
from archqa.fhir import Store
from archqa.query import Chart, Query, QueryResult, execute, format_agent_answer
from archqa.query.kinds import KINDS
from tests.fhir.invented import Resource, build_store, patient
from tests.query.clinic import clinic_record
from tests.query.generated_queries import BENCHMARK_KINDS, queries
from tests.query.invented import random_record

JUNK: list[Any] = [
    "",
    "x",
    7,
    -1.5,
    True,
    None,
    [],
    {},
    [None],
    ["x"],
    [{}],
    {"reference": 3},
    {"coding": "x"},
]


RECORDS = 8


def malformed(resource: Resource, pick: random.Random) -> Resource:
    """A copy with a few elements, at any depth, removed or replaced. Its type and id stay."""
    result = copy.deepcopy(resource)
    for _ in range(pick.randint(1, 4)):
        _spoil_element(result, pick)
    return result


def _spoil_element(resource: Resource, pick: random.Random) -> None:
    """Remove or replace one random element."""
    node: Any = resource
    keys = _keys(node)
    while keys:
        key = pick.choice(keys)
        child = node[key]
        if isinstance(child, dict | list) and child and pick.random() < 0.7:
            node = child
            keys = _keys(node)
            continue
        if isinstance(node, dict) and pick.random() < 0.3:
            del node[key]
        else:
            node[key] = copy.deepcopy(pick.choice(JUNK))
        return


def _keys(node: Any) -> list[Any]:
    if isinstance(node, list):
        return list(range(len(node)))
    return [key for key in node if key not in {"resourceType", "id"}]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    stores = []
    for seed in range(RECORDS):
        pick = random.Random(seed)
        resources = []
        for resource in random_record(seed):
            is_malformed = pick.random() < 0.6
            resources.append(malformed(resource, pick) if is_malformed else resource)
        stores.append(build_store(tmp_path_factory.mktemp("record"), resources))
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("what", BENCHMARK_KINDS)
@settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_a_question_about_a_malformed_record_has_an_answer(
    what: str, data: st.DataObject, records: list[Store]
) -> None:
    store = records[data.draw(st.integers(0, RECORDS - 1))]
    query = data.draw(queries(what))
    conventions = data.draw(st.sampled_from(["clinical", "mimic-ehrsql"]))
    result = execute(query, store, "p", conventions)
    assert_worded(query, result, store)
    assert format_agent_answer(result)


def assert_worded(query: Query, result: QueryResult, store: Store) -> None:
    """Whatever a query finds can be said: as lines, or as what is not recorded."""
    answer = record_answer("?", [(query, result)], {"id": "p"}, store)
    assert answer.lines or answer.message


CLINIC_KINDS = sorted(set(KINDS) - {"output", "microbiology_test", "organism"})

CLINIC_ROWS = sorted(
    set(CLINIC_KINDS) - {"lab", "vital", "susceptibility", "icu_stay", "care_unit"}
)


def random_clinical_query(what: str, pick: random.Random) -> Query | None:
    """A query of one kind with any field and limit; None if they do not go together."""
    limits: dict[str, list[Any]] = {
        "concepts": [[], [], ["glucose"], ["blood pressure"], ["statin"], ["asthma"]],
        "names": [[], [], ["asthma"]],
        "state": [None, "current", "ended"],
        "flag": [None, "high", "normal"],
        "classes": [[], ["icu"]],
        "reasons": [[], ["asthma"]],
    }
    fields = {
        name: pick.choice(choices)
        for name, choices in limits.items()
        if pick.random() < 0.4
    }
    returns = pick.choice(sorted(KINDS[what].returns))
    summary = pick.choice(
        ["each", "each", "count", "exists", "count_distinct", "change"]
    )
    when = {"position": pick.choice([None, "first", "last"])}
    try:
        return Query.model_validate(
            {
                "what": what,
                "returns": returns,
                "summary": summary,
                "when": when,
                **fields,
            }
            | {"now": "2026-11-23T12:00:00"}
        )
    except ValidationError:
        return None


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    stores = []
    for seed in range(RECORDS):
        pick = random.Random(seed)
        resources = [patient("p")]
        for resource in clinic_record():
            resources.append(malformed(resource, pick) if seed else resource)
        stores.append(build_store(tmp_path_factory.mktemp("clinic"), resources))
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("what", CLINIC_KINDS)
def test_a_clinical_question_about_a_malformed_record_has_an_answer(
    what: str, clinics: list[Store]
) -> None:
    pick = random.Random(what)
    executed = 0
    for store in clinics:
        chart = Chart(store, "p")
        for _ in range(40):
            query = random_clinical_query(what, pick)
            if query is not None:
                result = execute(query, store, "p", chart=chart)
                assert_worded(query, result, store)
                executed += 1
    assert executed > RECORDS


@pytest.mark.parametrize("what", CLINIC_ROWS)
def test_a_record_of_every_kind_has_a_row_of_each(
    what: str, clinics: list[Store]
) -> None:
    returns = min(KINDS[what].returns)
    query = Query.model_validate(
        {"what": what, "returns": returns, "now": "2026-11-23T12:00:00"}
    )
    assert execute(query, clinics[0], "p").rows
