"""A prompt version named in the settings is what a conversation shows the model, and what the trace names."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from archqa import resources
from archqa.agents.agent import Agent, RunContext
from archqa.agents.conversation import Conversation
from archqa.agents.dry_run_backend import DryRunBackend, DryRunCall
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.model_backend import ModelBackend
from archqa.agents.registry import load_agents
from archqa.core.step import Step
from archqa.errors import CallerError, Unusable
from archqa.fhir import Record
from archqa.llm.prompts import Prompts
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.tasks.fhir_agentbench.agents import RecordQuestionTask
from archqa.tasks.medagentbench.agents import MedAgentPaperTask, MedAgentTypedTask
from tests.tasks.medagentbench.invented import build_benchmark, task

MARKER = "This sentence is in version 2 alone."

CONVERSATIONAL_AGENTS = (
    "fhir_request",
    "fhir_retriever",
    "fhir_retriever_code",
    "fhir_multi_turn",
    "fhir_multi_turn_code",
    "clinical_paper",
    "clinical_typed",
)

TASKS: dict[type[Any], Any] = {
    RecordQuestionTask: RecordQuestionTask(question="What was the last potassium?"),
    MedAgentPaperTask: MedAgentPaperTask(
        instruction="Find Ann.", api_base="http://record/fhir/"
    ),
    MedAgentTypedTask: MedAgentTypedTask(instruction="Find Ann."),
}


@pytest.fixture(params=CONVERSATIONAL_AGENTS)
def agent(request: pytest.FixtureRequest) -> Agent[Any, Any]:
    agent_class, *_ = load_agents(request.param)
    return agent_class()


@pytest.fixture
def prompts(agent: Agent[Any, Any], tmp_path: Path) -> Prompts:
    """The released prompts and a second version of the agent's."""
    folder = tmp_path / "prompts"
    shutil.copytree(resources.prompts_dir(), folder)
    shutil.copytree(folder / agent.prompt, folder / second_version(agent))
    for template in (folder / second_version(agent)).glob("*.jinja"):
        template.write_text(f"{template.read_text()}\n{MARKER}\n")
    return Prompts(folder)


def second_version(agent: Agent[Any, Any]) -> str:
    return f"{agent.prompt.partition('/')[0]}/v9"


def new_conversation(
    agent: Agent[Any, Any], backend: ModelBackend, steps: list[Step]
) -> Conversation[Any]:
    context = RunContext({agent.name: backend}, steps.append)
    return Conversation(agent, TASKS[agent.task_type], context)


async def test_an_overridden_prompt_is_sent_and_recorded(
    agent: Agent[Any, Any], prompts: Prompts
) -> None:
    model = ScriptedModel(["Yes."])
    steps: list[Step] = []
    backend = ModelBackend(model, "fake", prompts=prompts, prompt=second_version(agent))
    await new_conversation(agent, backend, steps).next_reply()

    assert all(MARKER in message.content for message in model.asked[0].messages)
    [step] = steps
    assert all(MARKER in message["content"] for message in step.messages)
    assert step.prompt == second_version(agent)
    assert step.prompt_digest == prompts.digest(second_version(agent))


async def test_without_an_override_the_agents_own_prompt_is_sent_and_recorded(
    agent: Agent[Any, Any], prompts: Prompts
) -> None:
    model = ScriptedModel(["Yes."])
    steps: list[Step] = []
    backend = ModelBackend(model, "fake", prompts=prompts, prompt="another_agent/v9")
    await new_conversation(agent, backend, steps).next_reply()

    assert not any(MARKER in message.content for message in model.asked[0].messages)
    assert steps[0].prompt == agent.prompt
    assert steps[0].prompt_digest == prompts.digest(agent.prompt)


async def test_a_dry_run_counts_the_overridden_prompt(
    agent: Agent[Any, Any], prompts: Prompts
) -> None:
    calls: list[DryRunCall] = []
    model = ModelBackend(
        ScriptedModel([]), "fake", prompts=prompts, prompt=second_version(agent)
    )
    backend = DryRunBackend(model, EngineBackend(), None, calls)
    context = RunContext({agent.name: backend})
    with pytest.raises(Unusable, match="dry run"):
        await Conversation(agent, TASKS[agent.task_type], context).next_reply()
    assert MARKER in calls[0].request.messages[-1].content


@pytest.mark.parametrize("agent", ["clinical_typed"], indirect=True)
def test_a_reminder_comes_from_the_overridden_prompt_too(
    agent: Agent[Any, Any], prompts: Prompts
) -> None:
    backend = ModelBackend(
        ScriptedModel([]), "fake", prompts=prompts, prompt=second_version(agent)
    )
    conversation = new_conversation(agent, backend, [])
    conversation.add_message(conversation.own_prompt_text("tool.jinja"))
    assert MARKER in conversation.messages[-1].content


@pytest.mark.parametrize("agent", ["clinical_typed"], indirect=True)
def test_a_version_that_lacks_a_text_is_one_clear_error(
    agent: Agent[Any, Any], prompts: Prompts
) -> None:
    (prompts.folder / second_version(agent) / "tool.jinja").unlink()
    backend = ModelBackend(
        ScriptedModel([]), "fake", prompts=prompts, prompt=second_version(agent)
    )
    conversation = new_conversation(agent, backend, [])
    with pytest.raises(CallerError, match=r"medagent_typed/v9/tool\.jinja"):
        conversation.add_message(conversation.own_prompt_text("tool.jinja"))


def test_a_run_shows_and_records_the_overridden_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transcript that is graded begins with the message that was sent."""
    folder = tmp_path / "prompts"
    shutil.copytree(resources.prompts_dir(), folder)
    shutil.copytree(folder / "medagent_paper/v2", folder / "medagent_paper/v9")
    with (folder / "medagent_paper/v9/user.jinja").open("a") as template:
        template.write(f"\n{MARKER}\n")
    prompts = Prompts(folder)
    monkeypatch.setattr("archqa.agents.agent.default_prompts", lambda: prompts)
    monkeypatch.setattr("archqa.llm.prompts.default_prompts", lambda: prompts)

    benchmark = build_benchmark(tmp_path)
    (tmp_path / "tasks.json").write_text(json.dumps([task(4, "S9000001")]))
    model = ScriptedModel(["FINISH([1.9])"])
    run = predict(
        tmp_path / "tasks.json",
        out=tmp_path / "run",
        pipeline="paper",
        record=str(benchmark.store),
        scripted=model,
        model="fake",
        cache=False,
        agents={"clinical_paper": {"prompt": "medagent_paper/v9"}},
    )
    [record] = run.records
    assert model.asked[0].messages[0].content.endswith(MARKER)
    assert record.result.history[0]["content"] == model.asked[0].messages[0].content
    digest = prompts.digest("medagent_paper/v9")
    assert run.manifest.prompts == {"medagent_paper/v9": digest}
    trace = (run.path / "trace" / f"{record.id}.jsonl").read_text()
    [step] = [json.loads(line) for line in trace.splitlines()]
    assert (step["prompt"], step["prompt_digest"]) == ("medagent_paper/v9", digest)


class NoRecord(Record):
    """A record that is never read."""


@pytest.mark.parametrize("backend", [EngineBackend(), GrammarBackend(NoRecord())])  # type: ignore[abstract]
async def test_a_backend_that_cannot_converse_says_so(
    agent: Agent[Any, Any], backend: EngineBackend | GrammarBackend
) -> None:
    context = RunContext({agent.name: backend})
    task = TASKS[agent.task_type]
    with pytest.raises(
        Unusable, match=f"The agent {agent.name} converses with a model"
    ):
        Conversation(agent, task, context)
    with pytest.raises(
        Unusable, match=f"The agent {agent.name} converses with a model"
    ):
        await backend.converse(agent, task, context, ())
    with pytest.raises(
        Unusable, match=f"The agent {agent.name} converses with a model"
    ):
        backend.prompt_text(agent, "repair/v1/empty.jinja")
