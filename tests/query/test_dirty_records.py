"""A record holds what somebody once wrote: whatever its shape, a question ends in an answer, not in a traceback."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import Store
from archqa.query import execute, explain, format_agent_answer
from archqa.query.model import RETURNABLE_FIELDS
from tests.fhir.invented import Resource, build_store
from tests.query.invented import random_record
from tests.query.questions import queries

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


def spoilt(resource: Resource, pick: random.Random) -> Resource:
    """The resource with a few of its elements, at any depth, replaced by junk or lost. Its type and id stay."""
    found = copy.deepcopy(resource)
    for _ in range(pick.randint(1, 4)):
        node: Any = found
        while True:
            keys = (
                [key for key in node if key not in {"resourceType", "id"}]
                if isinstance(node, dict)
                else range(len(node))
            )
            if not keys:
                break
            key = pick.choice(list(keys))
            if isinstance(node[key], dict | list) and node[key] and pick.random() < 0.7:
                node = node[key]
                continue
            if isinstance(node, dict) and pick.random() < 0.3:
                del node[key]
            else:
                node[key] = copy.deepcopy(pick.choice(JUNK))
            break
    return found


SPOILT = 8


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    stores = []
    for seed in range(SPOILT):
        pick = random.Random(seed)
        resources = [
            spoilt(each, pick) if pick.random() < 0.6 else each for each in random_record(seed)
        ]
        stores.append(build_store(tmp_path_factory.mktemp("record"), resources))
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("what", sorted(RETURNABLE_FIELDS))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_question_to_a_spoilt_record_ends_in_an_answer(
    what: str, data: st.DataObject, records: list[Store]
) -> None:
    store = records[data.draw(st.integers(0, SPOILT - 1))]
    query = data.draw(queries(what))
    found = execute(query, store, "p", data.draw(st.sampled_from(["clinical", "mimic-ehrsql"])))
    assert explain(found, store).text
    assert format_agent_answer(found)
