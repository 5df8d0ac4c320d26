"""Which case goes to whom: fresh ones, those whose worker died, and those that need a shard of the record."""

import asyncio
from collections.abc import Iterator

from archqa.core.question import Item, RecordQuestion
from archqa.runs.ray.driver import MAX_WORKER_DEATHS, CaseQueue

ALL: frozenset[int] = frozenset()


def questions(count: int) -> Iterator[RecordQuestion]:
    return (
        RecordQuestion(id=f"q{number}", question="?", patient_fhir_id=str(number))
        for number in range(count)
    )


async def test_cases_are_read_one_at_a_time_as_they_are_asked_for() -> None:
    read: list[str] = []

    def source() -> Iterator[Item]:
        for each in questions(1000):
            read.append(each.id)
            yield each

    waiting = CaseQueue(source())
    for _ in range(3):
        await waiting.take(ALL)
    assert read == ["q0", "q1", "q2"]


async def test_it_is_over_when_the_last_case_has_ended_and_not_before() -> None:
    waiting = CaseQueue(questions(2))
    one, two = await waiting.take(ALL), await waiting.take(ALL)
    idle = asyncio.create_task(waiting.take(ALL))
    await asyncio.sleep(0)
    waiting.end(one)
    await asyncio.sleep(0)
    assert not waiting.over.is_set()
    waiting.requeue(two, died=True)
    assert await idle == two
    last = asyncio.create_task(waiting.take(ALL))
    waiting.end(two)
    await waiting.over.wait()
    last.cancel()


async def test_a_case_is_a_suspect_when_one_more_death_would_be_its_last() -> None:
    waiting = CaseQueue(questions(1))
    seen = []
    for _ in range(MAX_WORKER_DEATHS):
        case = await waiting.take(ALL)
        seen.append(waiting.is_suspect(case))
        waiting.requeue(case, died=True)
    assert seen == [False, False, True]


async def test_a_case_goes_only_to_a_worker_that_has_its_shard() -> None:
    waiting = CaseQueue(questions(6), lambda case: int(case.id[1:]) % 2 + 1)
    odd = [(await waiting.take(frozenset({2}))).id for _ in range(3)]
    assert odd == ["q1", "q3", "q5"]
    none_left = asyncio.create_task(waiting.take(frozenset({2})))
    await asyncio.sleep(0)
    assert not waiting.over.is_set()
    assert [(await waiting.take(frozenset({1, 2}))).id for _ in range(3)] == [
        "q0",
        "q2",
        "q4",
    ]
    none_left.cancel()
