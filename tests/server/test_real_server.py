"""The six stages through a real server: llama.cpp on loopback, with a model so small that it labels at chance.

What it says is of no interest; that it is held to the schema, checked, repaired, counted and cut off is.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.agent import CaseTask, RunContext
from archqa.agents.answer import DecisionOutput
from archqa.agents.context import MedicalContextAgent
from archqa.agents.labelling import Verdict, Verdicts
from archqa.agents.model_backend import ModelBackend
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.errors import ContextTooLong, Truncated
from archqa.llm.client import ServerModel
from archqa.llm.model import FinishReason, Message, Request
from archqa.llm.structured import strict_schema
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run
from archqa.settings import load_settings
from tests.server.llama import CONTEXT, llama_server, missing

pytestmark = pytest.mark.server

CASES = Path(__file__).with_name("two_cases.json")

SETTINGS = (
    "most_experts=1",
    "agents.context.max_tokens=128",
    "agents.general_expert.max_tokens=120",
    "agents.recruiting.max_tokens=60",
    "agents.specialist.max_tokens=300",
    "agents.specialist.turns=2",
    "agents.decision.max_tokens=300",
    "agents.answer.max_tokens=300",
)
"""A small model that repeats itself would otherwise go on to the end of its context."""

OUTPUTS: dict[str, type[FrozenModel]] = {
    "general_expert": Verdict,
    "specialist": Verdicts,
    "decision": DecisionOutput,
}


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    if missing():
        pytest.skip(missing())
    with llama_server() as url:
        yield url


@pytest.fixture(scope="module")
def run(base_url: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two cases, all six stages, one call at a time: with a greedy model the same words on every run."""
    typed = {"base_url": base_url, "model": "smollm2", "jobs": 1, "cache": False}
    return predict(
        CASES,
        out=tmp_path_factory.mktemp("run") / "r",
        settings=load_settings(None, typed, SETTINGS),
    )


@pytest.fixture
async def model(base_url: str) -> AsyncIterator[ServerModel]:
    server_model = ServerModel(base_url, "none", timeout=120)
    yield server_model
    await server_model.close()


def steps(run: Run) -> list[Step]:
    return [step for case in run.cases for step in run.folder.steps(case.id)]


def asking(text: str, output: type[FrozenModel] = Verdict, **changed: Any) -> Request:
    choices = {"label": ("essential", "not-relevant"), "sentence": ("1", "2")}
    words = (Message(role="user", content=text),)
    return Request(
        model="smollm2",
        messages=words,
        output_schema=strict_schema(output, choices),
        **changed,
    )


def test_every_stage_was_asked_and_every_case_has_an_end(run: Run) -> None:
    assert {step.agent for step in steps(run)} >= {
        "context",
        "general_expert",
        "recruiting",
        "specialist",
        "decision",
    }
    assert run.complete
    assert run.count(CaseStatus.ANSWERED) >= 1
    for record in run.records:
        assert record.status is CaseStatus.ANSWERED or record.error.startswith(
            ("Unusable: ", "Truncated: ")
        )


def test_answers_cite_sentences_of_their_note_within_the_word_limit(run: Run) -> None:
    cases = {case.id: case for case in run.cases}
    for record in run.records:
        if record.answer is not None:
            assert record.answer.cited
            assert record.answer.cited <= set(cases[record.id].sentence_ids)
            assert record.answer.words <= 75


def test_whole_replies_are_json_that_keeps_to_the_grammar(run: Run) -> None:
    """The server can say no label and no sentence id but those the schema leaves."""
    whole = [step for step in steps(run) if step.finish == FinishReason.COMPLETE]
    assert len(whole) > len(steps(run)) / 2
    for step in whole:
        said = json.loads(step.reply)
        if step.agent in OUTPUTS:
            OUTPUTS[step.agent].model_validate(said)
    ids = {case.id: set(case.sentence_ids) for case in run.cases}
    for case in run.cases:
        for step in run.folder.steps(case.id):
            verdicts = (
                json.loads(step.reply)["verdicts"]
                if step.agent == "specialist" and step in whole
                else []
            )
            assert {verdict["sentence_id"] for verdict in verdicts} <= ids[case.id]


def test_a_repair_turn_repeats_the_reply_and_says_what_was_wrong_with_it(
    run: Run,
) -> None:
    repairs = [step for step in steps(run) if len(step.messages) > 2]
    assert repairs
    for step in repairs:
        *before, said, why = step.messages
        (rejected,) = [
            step
            for step in steps(run)
            if list(step.messages) == before and step.reply == said["content"]
        ]
        assert rejected.rejected
        assert rejected.rejected in why["content"]


def test_what_was_cut_off_says_which_setting_to_raise(run: Run) -> None:
    for step in steps(run):
        assert (step.finish == FinishReason.LENGTH) == (
            f"raise agents.{step.agent}.max_tokens" in step.rejected
        )


def test_tokens_are_counted_and_their_sum_is_the_runs(run: Run) -> None:
    counted = [step.usage for step in steps(run)]
    assert all(
        usage.calls == 1 and usage.prompt_tokens > 100 and usage.completion_tokens > 1
        for usage in counted
    )
    assert run.usage.prompt_tokens == sum(usage.prompt_tokens for usage in counted)
    assert run.usage.cost_usd is None


def test_the_server_need_not_read_the_shared_prefix_again(run: Run) -> None:
    for case in run.cases:
        screened = [
            step.usage
            for step in run.folder.steps(case.id)
            if step.agent == "general_expert"
        ]
        known = [usage.cached_prompt_tokens / usage.prompt_tokens for usage in screened]
        assert sorted(known)[len(known) // 2] > 0.8


async def test_a_prompt_that_does_not_fit_is_too_long(model: ServerModel) -> None:
    with pytest.raises(ContextTooLong):
        await model.ask(asking("word " * CONTEXT * 2))


async def test_a_reply_at_its_limit_is_cut_off(model: ServerModel) -> None:
    reply = await model.ask(
        asking("Why is the sky blue? Explain at length.", max_tokens=8)
    )
    assert reply.finish is FinishReason.LENGTH
    assert reply.usage.completion_tokens == 8


async def test_an_agent_whose_reply_is_cut_off_says_so(
    model: ServerModel, run: Run
) -> None:
    backend = ModelBackend(model, "smollm2", max_tokens=8)
    with pytest.raises(Truncated, match=r"raise agents\.context\.max_tokens"):
        await backend.run(
            MedicalContextAgent(), CaseTask(case=run.cases[0]), RunContext({})
        )


async def test_prose_comes_without_a_schema(model: ServerModel) -> None:
    words = (Message(role="user", content="Say hello."),)
    reply = await model.ask(Request(model="smollm2", messages=words, max_tokens=12))
    assert reply.text
    assert not reply.text.startswith("{")
