"""At most so many requests are in flight, and the first come are the first served."""

import asyncio

import pytest

from archqa.llm.limits import RateBucket, RateLimitedModel, RateLimiter
from archqa.llm.model import Reply, Request, TransientError
from archqa.llm.scripted import ScriptedModel
from tests.llm.asking import make_request


class Gate:
    """Lets requests in, and out again when it is told to."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.most = 0
        self.opened = asyncio.Event()

    async def ask(self, request: Request) -> Reply:
        self.inside.append(request.messages[-1].content)
        self.most = max(self.most, len(self.inside))
        await self.opened.wait()
        self.inside.remove(request.messages[-1].content)
        return Reply(text="fine")


@pytest.mark.parametrize("jobs", [1, 3])
async def test_no_more_are_in_flight_than_there_are_places(jobs: int) -> None:
    gate = Gate()
    model = RateLimitedModel(gate, RateLimiter(jobs))
    asking = [
        asyncio.create_task(model.ask(make_request(str(number)))) for number in range(7)
    ]
    for _ in range(3):
        await asyncio.sleep(0)
    assert gate.inside == [str(number) for number in range(jobs)]
    gate.opened.set()
    await asyncio.gather(*asking)
    assert gate.most == jobs


async def test_a_place_is_given_back_when_a_request_fails() -> None:
    class Broken:
        async def ask(self, request: Request) -> Reply:
            raise KeyError("broken")

    model = RateLimitedModel(Broken(), RateLimiter(1))
    for _ in range(3):
        with pytest.raises(KeyError):
            await model.ask(make_request())


class Watch:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_bucket_spreads_its_amounts_evenly_over_the_minute() -> None:
    bucket = RateBucket(per_minute=120)
    assert [bucket.reserve(1, now=0.0) for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]
    assert bucket.reserve(1, now=10.0) == 0.0
    assert RateBucket(None).reserve(10**9, now=0.0) == 0.0


async def test_requests_start_no_faster_than_the_paces_allow() -> None:
    watch = Watch()
    limiter = RateLimiter(
        4,
        requests_per_minute=60,
        tokens_per_minute=600,
        clock=lambda: watch.now,
        sleep=watch.sleep,
    )
    for _ in range(4):
        await limiter.wait_for_rate_limit(tokens=20)
    assert (
        watch.now == 1000.0 + 3 * 2.0
    )  # 20 tokens at 600 a minute take two seconds, a request at 60 a minute one


async def test_after_retry_after_nothing_starts_until_the_server_said() -> None:
    watch = Watch()
    limiter = RateLimiter(2, clock=lambda: watch.now, sleep=watch.sleep)
    model = RateLimitedModel(
        ScriptedModel([TransientError("HTTP 429", retry_after=7.0), "fine"]), limiter
    )
    with pytest.raises(TransientError):
        await model.ask(make_request())
    assert (await model.ask(make_request("other"))).text == "fine"
    assert watch.now == 1007.0


@pytest.mark.parametrize(
    ("reset", "seconds"), [("6m0s", 360.0), ("20ms", 0.02), ("3", 3.0), ("soon", 0.0)]
)
async def test_an_empty_rate_limit_header_holds_until_its_reset(
    reset: str, seconds: float
) -> None:
    watch = Watch()
    limiter = RateLimiter(2, clock=lambda: watch.now, sleep=watch.sleep)
    limiter.apply_rate_limit_headers(
        {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": reset}
    )
    limiter.apply_rate_limit_headers(
        {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "60s"}
    )
    await limiter.wait_for_rate_limit(tokens=1)
    assert watch.now == pytest.approx(1000.0 + seconds)
