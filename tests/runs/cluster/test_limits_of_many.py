"""What the workers of a cluster keep to together, with the actor called in this process instead of through Ray."""

import asyncio
from typing import Any

import pytest

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.cache import SqliteCache
from archqa.llm.model import Reply
from archqa.llm.scripted import ScriptedModel
from archqa.runs.ray.shared_limits import LimitsActor, worker_limits
from archqa.settings import Settings
from tests.llm.asking import cached_model, make_request


class Handle:
    """An actor's handle as Ray gives it: `handle.method.remote(...)` starts the call and can be awaited."""

    def __init__(self, actor: LimitsActor) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._actor, name)

        class Method:
            @staticmethod
            def remote(*values: Any) -> asyncio.Task[Any]:
                return asyncio.ensure_future(method(*values))

        return Method


async def test_two_workers_start_their_requests_at_the_pace_of_one() -> None:
    limits = LimitsActor(600, None, None)
    waits = [await limits.reserve(10) for _ in range(11)]
    assert waits[-1] == pytest.approx(10 * 62 / 600, abs=0.05)
    assert waits == sorted(waits)


async def test_tokens_are_paced_as_well() -> None:
    limits = LimitsActor(None, 60_000, None)
    assert await limits.reserve(30_000) == pytest.approx(0.0, abs=0.01)
    assert await limits.reserve(1) == pytest.approx(31.0, abs=0.05)


@pytest.mark.parametrize("pace", [None, 60_000])
async def test_a_server_that_asks_to_be_left_alone_is_left_alone_by_all(
    pace: int | None,
) -> None:
    handle, settings = (
        Handle(LimitsActor(pace, None, None)),
        Settings(requests_per_minute=pace),
    )
    one, two = (
        worker_limits(handle, name, settings, 4).limiter for name in ("one", "two")
    )
    one.block_for(0.15)
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()
    await two.wait_for_rate_limit(1)
    assert asyncio.get_running_loop().time() - began >= 0.14


async def test_what_one_worker_spends_no_other_can() -> None:
    handle, settings = Handle(LimitsActor(None, None, 0.10)), Settings(max_cost=0.10)
    one, two = (
        worker_limits(handle, name, settings, 4).budget for name in ("one", "two")
    )
    await one.check("m")
    await one.add(Usage(calls=1, cost_usd=0.06))
    await two.check("m")
    await two.add(Usage(calls=1, cost_usd=0.06))
    for each in (one, two):
        with pytest.raises(BudgetExceeded, match=r"\$0.10 is spent \(\$0.1200\)"):
            await each.check("m")


async def test_the_same_question_at_two_workers_is_asked_by_one(tmp_path: Any) -> None:
    handle, settings = Handle(LimitsActor(None, None, None)), Settings()
    gate = asyncio.Event()

    class Slow:
        asked = 0

        async def ask(self, _: Any) -> Reply:
            self.asked += 1
            await gate.wait()
            return Reply(text="fine", usage=Usage(calls=1))

    slow = Slow()
    with SqliteCache(tmp_path / "replies.db") as cache:
        models = [
            cached_model(
                slow, cache, worker_limits(handle, name, settings, 4).in_flight
            )
            for name in ("one", "two")
        ]
        asking = [asyncio.create_task(model.ask(make_request())) for model in models]
        await asyncio.sleep(0.05)
        gate.set()
        replies = await asyncio.gather(*asking)
    assert slow.asked == 1
    assert sorted(reply.usage.calls for reply in replies) == [0, 1]


async def test_a_question_whose_asker_fails_or_dies_is_asked_by_the_next(
    tmp_path: Any,
) -> None:
    limits = LimitsActor(None, None, None)
    handle = Handle(limits)
    assert await limits.acquire("d", "dead")
    waiting = asyncio.create_task(limits.acquire("d", "alive"))
    await asyncio.sleep(0)
    await limits.forget("dead")
    assert not await waiting
    assert await limits.acquire("d", "alive")
    await limits.release("d")
    with SqliteCache(tmp_path / "replies.db") as cache:
        script = ScriptedModel([KeyError("x"), Reply(text="fine")])
        model = cached_model(
            script, cache, worker_limits(handle, "one", Settings(), 4).in_flight
        )
        with pytest.raises(KeyError):
            await model.ask(make_request())
        assert (await model.ask(make_request())).text == "fine"
