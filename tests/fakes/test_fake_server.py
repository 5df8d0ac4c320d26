"""The fake server is deterministic, counts what it is asked, and keeps to its own rules."""

import asyncio
import json
import urllib.request
from typing import Any

import pytest

from archqa.agents.answer import DecisionOutput
from archqa.agents.context import MedicalContext
from archqa.agents.labelling import Verdict, Verdicts
from archqa.agents.recruiting import RecruitedExperts
from archqa.core.value import FrozenModel
from archqa.llm.structured import parse_output, strict_schema
from tests.fakes.faults import FAULTS, Fault
from tests.fakes.model import FakeModel, Options
from tests.fakes.replies import reply_content
from tests.fakes.server import FakeServer, FakeServerProcess
from tests.fakes.wire import HttpRequest
from tests.llm.asking import make_request, server_model

CHOICES = {"sentence": ("1", "2", "3"), "label": ("essential", "not-relevant")}


def ask(model: FakeModel, text: str, **changed: Any) -> bytes:
    body = {"model": "fake", "messages": [{"role": "user", "content": text}], **changed}
    answer, _ = model.answer(
        HttpRequest("POST", "/v1/chat/completions", json.dumps(body).encode())
    )
    return answer.body


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return bytes(reply.read())


@pytest.mark.parametrize(
    "output", [MedicalContext, Verdict, Verdicts, RecruitedExperts, DecisionOutput]
)
def test_a_reply_fits_any_agents_schema_and_is_always_the_same(
    output: type[FrozenModel],
) -> None:
    schema = strict_schema(output, CHOICES)
    content = reply_content(schema, "the prompt", "seed")
    assert parse_output(json.dumps(content), output)
    assert reply_content(schema, "the prompt", "seed") == content


def test_equal_seeds_strike_and_wait_alike_and_others_do_not() -> None:
    def course(seed: int) -> list[tuple[str, float]]:
        model = FakeModel(
            Options(faults=("500@0.3",), latency=0.5, sigma=0.5, seed=seed)
        )
        for number in range(100):
            ask(model, f"question {number}")
        return [(request.outcome, request.delay) for request in model.seen]

    assert course(1) == course(1) != course(2)
    assert 15 < sum(outcome == "500" for outcome, _ in course(1)) < 45
    assert sorted(delay for _, delay in course(1))[50] == pytest.approx(0.5, rel=0.2)


def test_passing_faults_spare_another_attempt_and_lasting_ones_do_not() -> None:
    passing, lasting = (
        FakeModel(Options(faults=("500@0.5",))),
        FakeModel(Options(faults=("500@0.5,always",))),
    )
    for model in (passing, lasting):
        for number in range(100):
            ask(model, f"question {number % 20}")
    outcomes = [
        {request.outcome for request in model.seen[start::20]}
        for model in (passing, lasting)
        for start in range(20)
    ]
    assert sum(len(outcome) == 2 for outcome in outcomes[:20]) > 15
    assert all(len(outcome) == 1 for outcome in outcomes[20:])


def test_a_fault_nobody_knows_is_named_beside_those_there_are() -> None:
    with pytest.raises(ValueError, match="no fault 'flood'; there are: 400-context"):
        Fault.parse("flood@0.5")
    assert Fault.parse("429@0.25,first=2,only=decision") == Fault(
        "429", 0.25, False, 2, "decision"
    )
    assert len(FAULTS) > 40


async def test_it_counts_repetitions_and_what_is_in_flight_at_once() -> None:
    with FakeServer(latency=0.02) as server:
        async with server_model(server) as model:
            await asyncio.gather(
                *(model.ask(make_request(str(number % 6))) for number in range(8))
            )
        requests = server.requests
    assert (requests.asked, requests.repeated, requests.in_flight) == (8, 2, 0)
    assert 2 <= requests.max_in_flight <= 8
    assert requests.agents == {"general_expert": 8}


async def test_in_a_process_of_its_own_it_does_the_same() -> None:
    with FakeServerProcess("500,first=1", latency=0.001) as server:
        assert (
            json.loads(await asyncio.to_thread(read, f"{server.base_url}/models"))[
                "data"
            ][0]["id"]
            == "fake"
        )
        async with server_model(server) as model:
            for _ in range(2):
                await asyncio.gather(model.ask(make_request()), return_exceptions=True)
        assert server.requests.outcomes == {"500": 1, "ok": 1}
        assert (server.count, server.max_in_flight) == (2, 1)
