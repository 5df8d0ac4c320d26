"""The cache on a server does what the cache in a file does, for many machines at once."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from archqa.core.usage import Usage
from archqa.errors import CallerError, ServerUnavailable
from archqa.llm.cache import ReplyCache, SqliteCache
from archqa.llm.model import FinishReason, Reply
from archqa.llm.postgres import PostgresCache
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from tests.fakes.cases import write_synthetic_cases
from tests.llm.asking import cached_model, make_request
from tests.runs.cluster import postgres
from tests.runs.cluster.model import obedient

PAID = Reply(
    text="fine",
    usage=Usage(calls=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.25),
)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.server() as found:
        yield found


@pytest.fixture(params=["file", "server"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplyCache]:
    if request.param == "file":
        with SqliteCache(tmp_path / "replies.db") as there:
            yield there
        return
    with PostgresCache(request.getfixturevalue("url")) as shared:
        shared.clear()
        yield shared


async def test_a_paid_reply_is_paid_once_wherever_it_is_kept(cache: ReplyCache) -> None:
    script = ScriptedModel([PAID, PAID])
    first = await cached_model(script, cache).ask(make_request())
    again = await cached_model(script, cache).ask(make_request())
    assert (first.usage.cost_usd, again.usage.cost_usd, again.usage.cached_calls) == (
        0.25,
        0.0,
        1,
    )
    assert first.text == again.text
    assert (len(cache), cache.stats().by_model) == (1, {make_request().model: 1})


async def test_refusals_are_not_kept(cache: ReplyCache) -> None:
    refusal = Reply(text="no", finish=FinishReason.REFUSED)
    model = cached_model(ScriptedModel([refusal, PAID]), cache)
    assert (await model.ask(make_request())).finish is FinishReason.REFUSED
    assert (await model.ask(make_request())).text == "fine"


def test_what_is_kept_comes_back_to_the_character(cache: ReplyCache) -> None:
    odd = PAID.model_copy(
        update={"text": "a\x00b ü \U0001f600 '; DROP TABLE archqa_reply; -- %s"}
    )
    cache.put(make_request().digest, odd)
    cache.put(make_request().digest, odd)
    assert cache.get(make_request().digest) == odd
    assert cache.get("0" * 64) is None
    assert cache.clear() == 1
    assert cache.get(make_request().digest) is None


def test_many_threads_and_connections_write_at_once(url: str) -> None:
    with (
        PostgresCache(url) as one,
        PostgresCache(url) as two,
        ThreadPoolExecutor(8) as threads,
    ):
        one.clear()
        asked = [make_request(f"number {number}") for number in range(200)]
        list(
            threads.map(
                lambda pair: (one, two)[pair[0] % 2].put(pair[1].digest, PAID),
                enumerate(asked * 2),
            )
        )
        assert len(one) == 200
        assert all(two.get(each.digest) == PAID for each in asked)


def test_past_its_size_the_oldest_are_dropped(url: str) -> None:
    long = PAID.model_copy(update={"text": "x" * 10_000})
    with PostgresCache(url, max_bytes=500_000) as cache:
        cache.clear()
        for number in range(100):
            cache.put(make_request(f"number {number}").digest, long)
        assert cache.stats().size <= 500_000
        assert cache.get(make_request("number 0").digest) is None
        assert cache.get(make_request("number 99").digest) == long


def test_a_run_answers_from_the_server_what_another_machine_paid(
    url: str, tmp_path: Path
) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=3, sentences=3)
    first = predict(
        cases, out=tmp_path / "one", scripted=obedient(), model="fake", cache_url=url
    )
    again = predict(
        cases,
        out=tmp_path / "two",
        scripted=ScriptedModel([]),
        model="fake",
        cache_url=url,
    )
    assert first.usage.calls == again.usage.cached_calls > 0
    assert url not in (first.path / "run.json").read_text()


def test_a_server_that_is_away_or_no_address_gets_one_clear_error() -> None:
    pytest.importorskip("psycopg_pool", reason="the extra ray is not installed")
    with pytest.raises(ServerUnavailable, match="does not answer"):
        PostgresCache("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(CallerError, match="cache_url"):
        PostgresCache("redis://somewhere")


async def test_the_loop_goes_on_while_the_server_is_asked(url: str) -> None:
    with PostgresCache(url) as cache:
        cache.clear()
        model = cached_model(ScriptedModel(lambda _: PAID), cache)
        replies = await asyncio.gather(
            *(model.ask(make_request(f"at once {number}")) for number in range(50))
        )
    assert {each.text for each in replies} == {"fine"}
