"""Prompts of the subtasks of 2026 and of asking: their fields, and what they render for one case."""

import pytest

from archqa.agents.agent import Agent
from archqa.agents.alignment import AlignmentAgent, AlignmentTask
from archqa.agents.follow_up import AskedTurn, FollowUpAgent, FollowUpTask
from archqa.agents.line_check import LineCheckTask, NoteAnswerCheckAgent
from archqa.agents.note_answer import NoteAnswerAgent, NoteAnswerTask, NoteLine
from archqa.agents.question_interpretation import (
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.agents.reading_check import ReadingCheckAgent, ReadingTask
from archqa.core.case import Case, Phrase
from archqa.core.value import FrozenModel
from archqa.llm.prompts import default_prompts
from archqa.tasks import load_cases
from tests.agents.rendering import check_snapshot


def mini() -> Case:
    case = load_cases("mini").notes[0]
    return case.model_copy(
        update={"answer_sentences": (Phrase(id="1", text="It was takotsubo."),)}
    )


def task_of(agent: Agent) -> FrozenModel:  # type: ignore[type-arg]
    case = mini()
    first, second = (sentence.id for sentence in case.sentences[:2])
    line = NoteLine(text="It was takotsubo.", citations=(first, second))
    tasks: dict[type, FrozenModel] = {
        QuestionInterpretationTask: QuestionInterpretationTask.from_case(case),
        AlignmentTask: AlignmentTask(case=case),
        NoteAnswerTask: NoteAnswerTask.from_case(case).model_copy(
            update={"former": (line,), "problems": ("Line 1 is not supported.",)}
        ),
        FollowUpTask: FollowUpTask(
            question="And before that?",
            turns=(
                AskedTurn(
                    question="last troponin?",
                    status="answered",
                    lines=("Troponin I 2.4 ng/mL on 2021-05-05",),
                ),
            ),
        ),
        LineCheckTask: LineCheckTask.of_note(case, (line,)),
        ReadingTask: ReadingTask(
            question="What was her last potassium?",
            context="She drinks.",
            now="2020-06-01 12:00",
            reading="The value of the last result of potassium.",
            status="answered",
            result="Potassium 4.1 mmol/L on 2020-02-02",
            remarks="Not taken into account: “Hello there”.",
        ),
    }
    return tasks[agent.task_type]


AGENTS: tuple[Agent, ...] = (  # type: ignore[type-arg]
    QuestionInterpretationAgent(),
    AlignmentAgent(),
    NoteAnswerAgent(),
    NoteAnswerCheckAgent(),
    FollowUpAgent(),
    ReadingCheckAgent(),
)
PROMPTS = [agent.prompt for agent in AGENTS]


@pytest.mark.parametrize("agent", AGENTS, ids=PROMPTS)
def test_a_prompt_asks_only_for_fields_of_its_agents_task(agent: Agent) -> None:  # type: ignore[type-arg]
    assert default_prompts().fields(agent.prompt) <= set(agent.task_type.model_fields)


@pytest.mark.parametrize("agent", AGENTS, ids=PROMPTS)
def test_the_rendered_prompt_of_a_mini_case_is_the_snapshot(agent: Agent) -> None:  # type: ignore[type-arg]
    check_snapshot(agent.prompt, task_of(agent))
