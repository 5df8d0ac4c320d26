"""One server asked once: every fault has its typed outcome, and no word of the prompt gets out."""

import json
import logging
import os
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.core.usage import Usage
from archqa.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelError,
    ModelNotFound,
)
from archqa.llm.model import FinishReason, Reply, TransientError
from archqa.llm.prices import Price
from tests.fakes.faults import FAULTS
from tests.fakes.server import FakeServer
from tests.llm.asking import (
    API_KEY,
    RECORD_TEXT,
    ask_server,
    make_request,
    model_replying_with,
    server_model,
)

PASSING = {
    "connection-reset": "the connection failed",
    "cut-off-body": "the connection failed",
    "no-answer": "did not answer in time",
    "slow-drip": "did not answer in time",
    "429": "HTTP 429",
    "429-retry-after": "HTTP 429",
    "429-retry-date": "HTTP 429",
    "500": "HTTP 500",
    "502": "HTTP 502",
    "503": "HTTP 503",
    "529": "HTTP 529",
    "html-502": "HTTP 502",
    "html-200": "not a chat completion",
    "not-json": "not a chat completion",
    "other-json": "not a chat completion",
    "empty-choices": "not a chat completion",
    "null-choices": "not a chat completion",
}

LASTING: dict[str, type[Exception]] = {
    "401": AuthenticationFailed,
    "404-model": ModelNotFound,
    "400-context": ContextTooLong,
    "400-other": ModelError,
}

ENDS = {
    "length": FinishReason.LENGTH,
    "content-filter": FinishReason.FILTERED,
    "refusal": FinishReason.REFUSED,
    "empty-content": FinishReason.EMPTY,
    "null-content": FinishReason.EMPTY,
    "fenced": FinishReason.COMPLETE,
    "wrong-schema": FinishReason.COMPLETE,
}

PRICE = Price(
    prompt=2.0, cached=0.5, completion=8.0, as_of=date(2026, 1, 1), source="a test"
)


@pytest.mark.parametrize(("fault", "why"), PASSING.items())
async def test_what_may_pass_is_transient(fault: str, why: str) -> None:
    with FakeServer(fault, drip_seconds=0.005) as server:
        with pytest.raises(TransientError, match=why):
            await ask_server(
                server, patience=0.05 if fault in {"no-answer", "slow-drip"} else 5.0
            )
        assert server.count == 1


@pytest.mark.parametrize(("fault", "error"), LASTING.items())
async def test_what_will_not_pass_has_a_type_of_its_own(
    fault: str, error: type[Exception]
) -> None:
    with FakeServer(fault) as server, pytest.raises(error) as raised:
        await ask_server(server)
    assert type(raised.value) is error


@pytest.mark.parametrize(("fault", "finish"), ENDS.items())
async def test_a_reply_says_how_it_ended(fault: str, finish: FinishReason) -> None:
    with FakeServer(fault) as server:
        assert (await ask_server(server)).finish is finish


async def test_a_refusal_keeps_its_wording() -> None:
    with FakeServer("refusal") as server:
        assert (await ask_server(server)).text == "I cannot help with that."


async def test_a_server_that_is_not_there_may_come_back() -> None:
    with FakeServer() as server:
        pass
    with pytest.raises(TransientError, match="the connection failed"):
        await ask_server(server)


async def test_seconds_to_wait_are_read_in_both_forms() -> None:
    with (
        FakeServer("429-retry-after", retry_after=7.5) as server,
        pytest.raises(TransientError) as in_seconds,
    ):
        await ask_server(server)
    with (
        FakeServer("429-retry-date", retry_after=100) as server,
        pytest.raises(TransientError) as as_date,
    ):
        await ask_server(server)
    assert in_seconds.value.retry_after == 7.5
    assert as_date.value.retry_after == pytest.approx(100, abs=2)


@pytest.mark.parametrize(
    "header", ["soon", "-5", "nan", "", "Thu, 99 Foo 2026 10:00:00 GMT"]
)
async def test_a_senseless_retry_after_is_no_word_at_all(header: str) -> None:
    with pytest.raises(TransientError) as raised:
        await model_replying_with(b"{}", 429, retry_after=header).ask(make_request())
    assert raised.value.retry_after is None


async def test_tokens_are_counted_and_priced_cached_ones_apart() -> None:
    long = make_request("word " * 600)
    with FakeServer() as server:
        async with server_model(server, price=PRICE) as model:
            first, second = await model.ask(long), await model.ask(long)
    assert first.usage.cached_prompt_tokens == 0
    assert second.usage.cached_prompt_tokens == second.usage.prompt_tokens // 128 * 128
    fresh = second.usage.prompt_tokens - second.usage.cached_prompt_tokens
    dollars = (
        fresh * 2.0
        + second.usage.cached_prompt_tokens * 0.5
        + second.usage.completion_tokens * 8.0
    )
    assert second.usage.cost_usd == pytest.approx(dollars / 1e6)
    assert second.usage.calls == 1
    assert second.usage.seconds > 0


async def test_uncounted_tokens_cost_an_unknown_sum() -> None:
    with FakeServer("no-usage") as server:
        reply = await ask_server(server, price=PRICE)
    assert reply.usage == Usage(calls=1, cost_usd=None, seconds=reply.usage.seconds)


@pytest.mark.parametrize(
    "usage",
    [{}, [], {"total_tokens": 9}, {"prompt_tokens": None, "completion_tokens": "7"}],
)
async def test_a_malformed_count_does_not_lose_the_reply(usage: Any) -> None:
    message = {"role": "assistant", "content": "fine"}
    completion = {
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": usage,
    }
    reply = await model_replying_with(json.dumps(completion).encode()).ask(
        make_request()
    )
    assert reply.text == "fine"
    assert reply.usage.cost_usd is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
MESSAGES = JSON | st.fixed_dictionaries(
    {}, optional={"role": JSON, "content": JSON, "refusal": JSON}
)
CHOICES = JSON | st.lists(
    st.fixed_dictionaries({}, optional={"finish_reason": JSON, "message": MESSAGES}),
    max_size=2,
)
COMPLETIONS = JSON | st.fixed_dictionaries(
    {}, optional={"choices": CHOICES, "usage": JSON, "model": JSON}
)


@given(COMPLETIONS)
async def test_whatever_json_comes_it_is_a_reply_or_a_passing_fault(
    completion: Any,
) -> None:
    try:
        reply = await model_replying_with(json.dumps(completion).encode()).ask(
            make_request()
        )
    except TransientError:
        return
    assert isinstance(reply, Reply)


@given(
    st.binary(max_size=60), st.sampled_from([200, 204, 301, 400, 404, 418, 500, 599])
)
async def test_whatever_bytes_come_they_have_a_type(
    content: bytes, status: int
) -> None:
    try:
        reply = await model_replying_with(content, status).ask(make_request())
    except (TransientError, ModelError, ContextTooLong):
        return
    assert isinstance(reply, Reply)


@pytest.mark.parametrize(
    "fault", [name for name, effect in FAULTS.items() if effect and name not in ENDS]
)
async def test_no_word_of_the_prompt_and_no_key_is_in_an_error_or_a_log(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Even from a server that quotes what it was sent, and with the loggers of every library wide open."""
    caplog.set_level(logging.DEBUG)
    said = ""
    with FakeServer(fault, quote_prompt=True, drip_seconds=0.005) as server:
        try:
            await ask_server(
                server, patience=0.05 if fault in {"no-answer", "slow-drip"} else 5.0
            )
        except Exception as error:
            said = f"{error!r} {error.__cause__!r} {error}"
    assert not [
        canary for canary in (RECORD_TEXT, API_KEY) if canary in said + caplog.text
    ]


async def test_a_code_that_quotes_the_prompt_is_not_passed_on() -> None:
    body = {"error": {"message": RECORD_TEXT, "code": f"no {RECORD_TEXT}"}}
    with pytest.raises(ModelError) as raised:
        await model_replying_with(json.dumps(body).encode(), 400).ask(make_request())
    assert RECORD_TEXT not in str(raised.value)


async def test_a_key_refused_is_no_reason_to_ask_again_in_another_form() -> None:
    with FakeServer("401") as server:
        with pytest.raises(AuthenticationFailed, match="OPENAI_API_KEY"):
            await ask_server(server)
        assert server.count == 1
    assert "OPENAI_API_KEY" not in os.environ


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "'max_tokens' or 'max_completion_tokens' too large: 4096. The model's maximum context length is 2048 tokens",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "prompt is too long: 250000 tokens > 200000 maximum",
    ],
)
async def test_servers_say_in_different_words_that_a_prompt_does_not_fit(
    words: str,
) -> None:
    with pytest.raises(ContextTooLong, match="fake"):
        await model_replying_with(
            json.dumps({"error": {"message": words}}).encode(), 400
        ).ask(make_request())


async def test_a_refusal_that_speaks_of_the_medical_context_is_not_about_length() -> (
    None
):
    body = {
        "error": {"message": "Cannot parse <context> in the message.", "code": "bad"}
    }
    with pytest.raises(ModelError, match=r"HTTP 400 \(bad\)"):
        await model_replying_with(json.dumps(body).encode(), 400).ask(make_request())
