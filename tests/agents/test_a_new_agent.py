"""A new agent is what CONTRIBUTING lists, the skill for the dry run included."""

import shutil
from pathlib import Path

import pytest

from archqa import resources
from archqa.agents import engine_backend, registry
from archqa.agents.agent import Agent, CaseTask, RunContext
from archqa.agents.context import MedicalContextAgent
from archqa.agents.dry_run_backend import DryRunBackend, DryRunCall
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.case import Case, Sentence
from archqa.core.value import FrozenModel
from archqa.errors import Unusable
from archqa.llm.prompts import Prompts
from archqa.llm.scripted import ScriptedModel
from archqa.llm.structured import Rejected

CASE = Case(
    id="1",
    clinician_question="Why was she given iron?",
    sentences=(Sentence(id="1", text="She was given iron for anemia."),),
)


class Urgency(FrozenModel):
    """How soon somebody must act."""

    days: int


class UrgencyAgent(Agent[CaseTask, Urgency]):
    """Says within how many days somebody must act."""

    name = "urgency"
    prompt = "urgency/v1"
    task_type = CaseTask
    output_type = Urgency

    def check(self, task: CaseTask, output: Urgency) -> None:
        if output.days < 0:
            raise Rejected("The days must not be negative.")


@pytest.fixture
def prompts(tmp_path: Path) -> Prompts:
    folder = tmp_path / "prompts"
    shutil.copytree(resources.prompts_dir(), folder)
    (folder / "urgency" / "v1").mkdir(parents=True)
    (folder / "urgency" / "v1" / "system.jinja").write_text("Say how urgent it is.")
    (folder / "urgency" / "v1" / "user.jinja").write_text(
        "{{ case.clinician_question }}"
    )
    return Prompts(folder)


@pytest.fixture
def with_skill(monkeypatch: pytest.MonkeyPatch) -> None:
    async def estimate_urgency(backend: EngineBackend, task: CaseTask) -> Urgency:
        return Urgency(days=len(task.case.sentences))

    monkeypatch.setitem(engine_backend.ENGINE_SKILLS, UrgencyAgent, estimate_urgency)


def dry_run(prompts: Prompts, calls: list[DryRunCall]) -> RunContext:
    model = ModelBackend(ScriptedModel([]), "fake", prompts=prompts)
    backend = DryRunBackend(model, EngineBackend(), None, calls)
    return RunContext({UrgencyAgent.name: backend, MedicalContextAgent.name: backend})


async def run_two_stages(context: RunContext) -> None:
    """A pipeline whose second stage comes after the new agent."""
    await UrgencyAgent().run(CaseTask(case=CASE), context)
    await MedicalContextAgent().run(CaseTask(case=CASE), context)


async def test_a_model_runs_it_and_its_check_is_applied(prompts: Prompts) -> None:
    model = ScriptedModel(['{"days": -1}', '{"days": 2}'])
    context = RunContext(
        {UrgencyAgent.name: ModelBackend(model, "fake", prompts=prompts)}
    )
    output = await UrgencyAgent().run(CaseTask(case=CASE), context)
    assert output == Urgency(days=2)
    assert "must not be negative" in model.asked[1].messages[-1].content


@pytest.mark.usefixtures("with_skill")
async def test_with_a_skill_the_dry_run_counts_it_and_every_later_stage(
    prompts: Prompts,
) -> None:
    calls: list[DryRunCall] = []
    await run_two_stages(dry_run(prompts, calls))
    assert [call.agent for call in calls] == ["urgency", "context"]
    assert "Why was she given iron?" in calls[0].request.messages[-1].content


async def test_without_a_skill_the_dry_run_stops_there_and_says_whose_it_lacks(
    prompts: Prompts,
) -> None:
    calls: list[DryRunCall] = []
    with pytest.raises(Unusable, match="cannot run the agent urgency"):
        await run_two_stages(dry_run(prompts, calls))


def test_one_registry_line_makes_it_known_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.AGENT_CLASSES, "urgency", f"{__name__}:UrgencyAgent")
    [agent_class] = registry.load_agents("urgency")
    assert agent_class.name == "urgency"
