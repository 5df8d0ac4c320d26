import asyncio
import os
import signal

import pytest

from archqa.runs import event_loop


async def double(number: int) -> int:
    return 2 * number


def test_a_coroutine_is_run_with_and_without_a_loop_around_it() -> None:
    async def inner() -> int:
        return event_loop.run_sync(double(3))

    assert event_loop.run_sync(double(2)) == 4
    assert asyncio.run(inner()) == 6


def test_an_interruption_of_the_loop_s_constructor_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finished: list[asyncio.AbstractEventLoop] = []
    make_loop = asyncio.new_event_loop

    def interrupted() -> asyncio.AbstractEventLoop:
        os.kill(os.getpid(), signal.SIGINT)
        finished.append(make_loop())
        return finished[-1]

    monkeypatch.setattr(asyncio.events, "new_event_loop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        event_loop.run_sync(double(1))
    assert finished[0].is_closed()
