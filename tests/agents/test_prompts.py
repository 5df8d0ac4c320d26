"""Prompts: what is asked for is given, what is released stays, and what one mini case is told is kept as a snapshot."""

from pathlib import Path

import pytest

from archqa.agents.agent import Agent, CaseTask
from archqa.agents.answer import (
    CompressionAgent,
    CompressionTask,
    DecisionAgent,
    DecisionTask,
    SummaryAgent,
    SummaryTask,
)
from archqa.agents.context import MedicalContextAgent
from archqa.agents.labelling import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    SentenceLabellingTask,
    SpecialistAgent,
    SpecialistTask,
)
from archqa.agents.line_check import LineSupportAgent
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.agents.registry import AGENT_NAMES, load_agents
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.llm.prompts import Prompts, default_prompts
from archqa.tasks import load_cases
from archqa.tasks.fhir_agentbench.agents import JudgeAgent, JudgeTask
from tests.agents.rendering import UPDATING, check_snapshot

AGENTS: tuple[Agent, ...] = (  # type: ignore[type-arg]
    MedicalContextAgent(),
    GeneralExpertAgent(),
    GeneralExpertBatchAgent(),
    RecruitingAgent(),
    SpecialistAgent(),
    DecisionAgent(),
    CompressionAgent(),
    SummaryAgent(),
    JudgeAgent(),
)


def mini() -> Case:
    return load_cases("mini").cases[0]


def task_of(agent: Agent) -> CaseTask:  # type: ignore[type-arg]
    case = mini()
    context = "1. Background that a reader needs."
    sentence = case.sentences[0]
    judgements = {
        "general expert": (
            Judgement(
                sentence_id=sentence.id,
                label=Relevance.ESSENTIAL,
                rationale="It says why.",
            ),
        )
    }
    draft = CitedAnswer(claims=(Claim(text="A long draft.", citations=(sentence.id,)),))
    tasks: dict[type, CaseTask] = {
        CaseTask: CaseTask(case=case),
        SentenceLabellingTask: SentenceLabellingTask(
            case=case, context=context, sentence=sentence
        ),
        BatchLabellingTask: BatchLabellingTask(
            case=case, context=context, sentences=case.sentences[:3]
        ),
        RecruitingTask: RecruitingTask(case=case, context=context),
        SpecialistTask: SpecialistTask(
            case=case, context=context, specialty="cardiology"
        ),
        DecisionTask: DecisionTask(case=case, context=context, judgements=judgements),
        CompressionTask: CompressionTask(case=case, context=context, draft=draft),
        JudgeTask: JudgeTask(
            question="How high?", reference="[[70.3]]", reply="It was 70.3 bpm."
        ),
        SummaryTask: SummaryTask(case=case, context=context, essential=(sentence.id,)),
    }
    return tasks[agent.task_type]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.prompt)
def test_a_prompt_asks_only_for_fields_of_its_agents_task(agent: Agent) -> None:  # type: ignore[type-arg]
    assert default_prompts().fields(agent.prompt) <= set(agent.task_type.model_fields)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.prompt)
def test_the_rendered_prompt_of_a_mini_case_is_the_snapshot(agent: Agent) -> None:  # type: ignore[type-arg]
    check_snapshot(agent.prompt, task_of(agent))


def test_a_released_prompt_is_never_edited() -> None:
    """A change makes a new version folder; `make snapshots` adds its digest to the lock."""
    prompts = default_prompts()
    names = sorted(
        str(path.parent.relative_to(prompts.folder))
        for path in prompts.folder.glob("*/v*/system.jinja")
    )
    lock = prompts.folder / "released.lock"
    if UPDATING:
        lock.write_text(
            "".join(f"{prompts.digest(name)}  {name}\n" for name in names),
            encoding="utf-8",
        )
    released = dict(
        reversed(line.split("  "))
        for line in lock.read_text(encoding="utf-8").splitlines()
    )
    assert {name: prompts.digest(name) for name in names} == released


def test_the_repository_has_only_prompts_that_an_agent_uses() -> None:
    prompts = default_prompts()
    used = {JudgeAgent.prompt, LineSupportAgent.prompt, "repair/v1"}
    for name in AGENT_NAMES:
        used.update(agent.prompt for agent in load_agents(name))
    folders = {path.parent for path in prompts.folder.glob("*/v*/*")}
    names = {str(folder.relative_to(prompts.folder)) for folder in folders}
    assert {name for name in names if not name.startswith("shared/")} == used


def test_every_shared_text_is_part_of_a_prompt() -> None:
    folder = default_prompts().folder
    templates = "\n".join(
        path.read_text(encoding="utf-8") for path in folder.rglob("*.jinja")
    )
    for path in folder.glob("shared/*/*"):
        assert f'"{path.relative_to(folder)}"' in templates, path


@pytest.mark.parametrize(
    "agent", [GeneralExpertAgent(), SpecialistAgent()], ids=lambda agent: agent.prompt
)
def test_what_varies_between_calls_on_a_case_comes_last(agent: Agent) -> None:  # type: ignore[type-arg]
    task = task_of(agent)
    change: dict[str, object] = {"specialty": "oncology"}
    if isinstance(task, SentenceLabellingTask):
        change = {"sentence": mini().sentences[1]}
    prompt = _whole(agent, task)
    changed_prompt = _whole(agent, task.model_copy(update=change))
    shared = 0
    for character, changed_character in zip(prompt, changed_prompt, strict=False):
        if character != changed_character:
            break
        shared += 1
    assert shared >= 0.9 * max(len(prompt), len(changed_prompt))


def test_an_edited_include_changes_the_digest_of_every_prompt_that_uses_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "agent" / "v1").mkdir(parents=True)
    (tmp_path / "shared" / "part.jinja").write_text("one")
    (tmp_path / "agent" / "v1" / "user.jinja").write_text(
        '{% include "shared/part.jinja" %}'
    )
    before = Prompts(tmp_path).digest("agent/v1")
    (tmp_path / "shared" / "part.jinja").write_text("two")
    assert Prompts(tmp_path).digest("agent/v1") != before


def _whole(agent: Agent, task: CaseTask) -> str:  # type: ignore[type-arg]
    return "\n".join(
        message.content
        for message in default_prompts().render(agent.prompt, dict(task))
    )
