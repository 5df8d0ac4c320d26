"""The agents of a record through a real server: llama.cpp on loopback, with a model too small to know what it does.

What it says is of no interest; that tools go out and calls come back, that a query is held to its schema, and that
every question ends in words of ours, is.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.agent import RunContext
from archqa.agents.model_backend import ModelBackend
from archqa.agents.planner import Plan
from archqa.core.question import RecordQuestion
from archqa.core.step import Step
from archqa.errors import CaseFailed
from archqa.fhir import Store
from archqa.llm.client import ServerModel
from archqa.llm.model import FinishReason, Message, Model, Reply, Request, ToolCall
from archqa.query import Query
from archqa.tasks.fhir_agentbench.published_agents import (
    NO_FINAL_ANSWER,
)
from archqa.tasks.fhir_agentbench.task import RecordResult
from archqa.tasks.fhir_agentbench.tools import GetResourcesByPatientFhirId
from archqa.tasks.pipeline import PipelineResult
from archqa.tasks.pipelines import find
from tests.fhir.invented import build_store
from tests.query.invented import random_record
from tests.runs.fhir_questions import PUBLISHED_PIPELINES
from tests.server.llama import llama_server, missing

pytestmark = pytest.mark.server

QUESTION = RecordQuestion(
    id="q1",
    question="Count the number of hospital visits of patient 1.",
    patient_fhir_id="p",
)
EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fhir_request_get": (
        {"query_string": "Condition?patient=a"},
        {"query_string": "Procedure?patient=b"},
    ),
    "get_resources_by_patient_fhir_id": (
        {"resource_type": "Condition", "patient_fhir_id": "a"},
        {"resource_type": "Procedure", "patient_fhir_id": "b"},
    ),
    "execute_python_code": ({"code": "answer = 1"}, {"code": "answer = 2"}),
}


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    if missing():
        pytest.skip(missing())
    with llama_server(tools=True, context=8192) as url:
        yield url


@pytest.fixture
async def model(base_url: str) -> AsyncIterator[ServerModel]:
    server_model = ServerModel(base_url, "none", timeout=300)
    yield server_model
    await server_model.close()


@pytest.fixture
def record(tmp_path: Path) -> Store:
    return build_store(tmp_path / "record", random_record(3), "gcp")


class Shown:
    """A model that is shown two calls of the first tool before each question that offers tools: it imitates them."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    async def ask(self, request: Request) -> Reply:
        if not request.tools or any(
            message.role == "tool" for message in request.messages
        ):
            return await self._inner.ask(request)
        first, *rest = request.messages
        examples = (
            turn
            for example in EXAMPLES[request.tools[0].name]
            for turn in _example(request.tools[0].name, example)
        )
        return await self._inner.ask(
            request.model_copy(update={"messages": (first, *examples, *rest)})
        )


def _example(name: str, arguments: dict[str, Any]) -> tuple[Message, ...]:
    call = ToolCall(id="call_0", name=name, arguments=json.dumps(arguments))
    return (
        Message(role="user", content=f"Call {name}."),
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content="{}", tool_call_id="call_0"),
    )


async def ended(
    pipeline: str, model: Model, record: Store
) -> tuple[PipelineResult | CaseFailed, list[Step]]:
    """Run a pipeline with as few turns as have results of tools in them: each takes seconds."""
    chosen = find(pipeline, "fhir-agentbench")
    steps: list[Step] = []
    backend = ModelBackend(model, "smollm2", max_tokens=120, turns=1)
    run_context = RunContext(
        dict.fromkeys(chosen.agents, backend), steps.append, record
    )
    values = {"iterations": 2, "planner_turns": 1}
    own = chosen.settings_type
    names = own.model_fields.keys() & values.keys()
    try:
        result = await chosen.run(
            QUESTION, run_context, own(**{name: values[name] for name in names})
        )
        return result, steps
    except CaseFailed as failure:
        return failure, steps


@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
async def test_every_agent_ends_its_question(
    pipeline: str, model: ServerModel, record: Store
) -> None:
    found, steps = await ended(pipeline, Shown(model), record)
    assert steps
    assert all(
        step.usage.calls == 1 and step.usage.prompt_tokens > 100
        for step in steps
        if step.finish == "complete"
    )
    assert isinstance(found.result, RecordResult)
    if isinstance(found, CaseFailed):
        assert str(found).startswith(("No tool calls found", "Expected '", "fhir_"))
    elif pipeline.startswith("multi-turn"):
        assert (
            found.result.answer == NO_FINAL_ANSWER
            or "final answer is:" in str(found.result.answer).lower()
        )


async def test_a_tool_that_the_model_calls_is_run_on_the_record(
    model: ServerModel, record: Store
) -> None:
    """Shown often enough what a call looks like, even this model writes one, and the server reads it."""
    tool = GetResourcesByPatientFhirId()
    turns = [Message(role="system", content="Call the tool.")]
    for kind in ("Condition", "Procedure", "Observation", "Location"):
        turns.append(Message(role="user", content=f"Get {kind} resources of patient p"))
        turns += _example(tool.name, {"resource_type": kind, "patient_fhir_id": "p"})[
            1:
        ]
    turns.append(Message(role="user", content="Get Encounter resources of patient p"))
    request = Request(
        model="smollm2", messages=tuple(turns), tools=(tool.spec,), max_tokens=80
    )
    reply = await model.ask(request)
    [call] = reply.tool_calls
    assert reply.finish is FinishReason.COMPLETE
    assert call.name == tool.name
    given = tool.call(record, call.arguments)
    assert given.fault == ""
    assert given.resources["Encounter"]


async def test_a_conversation_with_results_of_tools_is_understood(
    model: ServerModel,
) -> None:
    call = ToolCall(id="call_1", name="add", arguments='{"a": 1, "b": 2}')
    turns = (
        Message(role="user", content="What is 1 + 2?"),
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content="3", tool_call_id="call_1"),
    )
    reply = await model.ask(Request(model="smollm2", messages=turns, max_tokens=20))
    assert reply.text


async def test_the_planner_is_held_to_the_querys_schema_and_the_question_ends(
    model: ServerModel, record: Store
) -> None:
    found, steps = await ended("planner", model, record)
    assert steps
    for step in steps:
        if step.backend == "model" and step.finish == "complete" and not step.rejected:
            Plan.model_validate_json(step.reply)
    if isinstance(found, PipelineResult):
        content = found.result.to_json()
        assert content.get("handed_over") or Query.model_validate(content["query"])
    else:
        assert str(found)
