"""Asking again: as often as allowed, no sooner than the server said, and not for what will not pass."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from archqa.errors import (
    AuthenticationFailed,
    CaseFailed,
    ContextTooLong,
    ServerUnavailable,
)
from archqa.llm.limits import RetryingModel
from archqa.llm.model import Reply, Request, TransientError
from archqa.llm.scripted import ScriptedModel
from tests.fakes.server import FakeServer
from tests.llm.asking import RECORD_TEXT, make_request, server_model

PASSING = TransientError("HTTP 503")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between tries; time stands still."""
    waited: list[float] = []

    async def sleep(
        seconds: float, _sleep: Callable[..., object] = asyncio.sleep
    ) -> None:
        waited.append(seconds)

    monkeypatch.setattr("stamina._core._smart_sleep", sleep)
    return waited


async def test_what_passes_is_forgotten(waits: list[float]) -> None:
    script = ScriptedModel([PASSING, PASSING, "fine"])
    assert (await RetryingModel(script).ask(make_request())).text == "fine"
    assert len(script.asked) == 3


async def test_waits_grow_to_a_bound(waits: list[float]) -> None:
    script = ScriptedModel([PASSING] * 9 + ["fine"])
    await RetryingModel(script, tries=10, first_wait=1.0, max_wait=20.0).ask(
        make_request()
    )
    lowest = [min(2.0**number, 20.0) for number in range(9)]
    assert all(
        least <= wait <= min(least + 1.0, 20.0)
        for least, wait in zip(lowest, waits, strict=True)
    )


async def test_the_servers_word_on_when_is_kept(waits: list[float]) -> None:
    script = ScriptedModel(
        [TransientError("HTTP 429", 12.0), TransientError("HTTP 429", 0.0), "fine"]
    )
    await RetryingModel(script).ask(make_request())
    assert waits == [12.0, 0.0]


async def test_a_server_that_wants_an_hour_is_not_waited_for(
    waits: list[float],
) -> None:
    script = ScriptedModel([TransientError("HTTP 429", 3600.0)])
    with pytest.raises(ServerUnavailable, match="failed 1 time"):
        await RetryingModel(script).ask(make_request())
    assert waits == []


async def test_after_the_last_try_it_is_said_how_often_and_what_to_do(
    waits: list[float],
) -> None:
    script = ScriptedModel([PASSING] * 3)
    with pytest.raises(
        ServerUnavailable,
        match=r"failed 3 times; the last time: HTTP 503\.\nCheck --base-url",
    ):
        await RetryingModel(script, tries=3).ask(make_request())
    assert len(script.asked) == 3


@pytest.mark.parametrize(
    "lasting",
    [AuthenticationFailed("no"), ContextTooLong("no"), CaseFailed("no"), KeyError("x")],
)
async def test_what_will_not_pass_is_raised_at_once(
    lasting: Exception, waits: list[float]
) -> None:
    script = ScriptedModel([lasting])
    with pytest.raises(type(lasting)):
        await RetryingModel(script).ask(make_request())
    assert len(script.asked) == 1


async def test_one_try_means_one(waits: list[float]) -> None:
    script = ScriptedModel([PASSING])
    with pytest.raises(ServerUnavailable):
        await RetryingModel(script, tries=1).ask(make_request())


async def test_a_hundred_questions_survive_a_third_of_all_attempts_failing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    faults = (
        "500@0.05",
        "503@0.05",
        "429@0.05",
        "html-200@0.05",
        "empty-choices@0.05",
        "cut-off-body@0.05",
    )
    with FakeServer(*faults, quote_prompt=True, seed=1) as server:
        async with server_model(server) as model:
            patient = RetryingModel(model, tries=8, first_wait=0.0001, max_wait=0.001)
            await asyncio.gather(
                *(
                    patient.ask(make_request(f"{RECORD_TEXT} {number}"))
                    for number in range(100)
                )
            )
        outcomes = server.requests.outcomes
    assert outcomes["ok"] == 100
    assert sum(outcomes.values()) == pytest.approx(100 / 0.735, rel=0.2)
    assert RECORD_TEXT not in caplog.text


async def test_whoever_calls_a_question_off_is_obeyed_between_tries() -> None:
    class Down:
        async def ask(self, request: Request) -> Reply:
            raise PASSING

    asking = asyncio.create_task(
        RetryingModel(Down(), first_wait=60.0).ask(make_request())
    )
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
