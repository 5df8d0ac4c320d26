"""Work that is stopped from another thread ends where it waits, and before its next inference."""

import asyncio
from threading import Timer

import pytest

from archqa.core.stopping import Stop, Stopped, current_stop, stoppable
from archqa.engine.networks import submit_to_pool
from archqa.runs.event_loop import run_sync


def test_a_coroutine_that_waits_is_cancelled_from_another_thread() -> None:
    stop = Stop()
    Timer(0.05, stop.request).start()
    with stoppable(stop), pytest.raises(Stopped):
        run_sync(asyncio.sleep(30))


def test_what_is_asked_to_stop_before_it_begins_does_not_begin() -> None:
    stop = Stop()
    stop.request()
    with stoppable(stop), pytest.raises(Stopped):
        run_sync(asyncio.sleep(30))


def test_no_inference_begins_once_the_work_is_stopped() -> None:
    stop = Stop()
    with stoppable(stop):
        assert submit_to_pool(str, 1).result() == "1"
        stop.request()
        with pytest.raises(Stopped):
            submit_to_pool(str, 1).result()
    assert submit_to_pool(str, 1).result() == "1"


def test_a_thread_of_the_work_knows_what_may_stop_it() -> None:
    stop = Stop()
    with stoppable(stop):
        assert run_sync(asyncio.to_thread(current_stop)) is stop
    assert current_stop() is None


def test_a_cancellation_of_its_own_stays_one() -> None:
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    with stoppable(Stop()), pytest.raises(asyncio.CancelledError):
        run_sync(cancels_itself())
