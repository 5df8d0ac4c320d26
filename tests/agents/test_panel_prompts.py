"""Prompts of the panel, of 2026 and of asking: asked for is what is given; one case's words are kept."""

import pytest

from archqa.agents.agent import Agent
from archqa.agents.alignment import AlignmentAgent, AlignmentTask
from archqa.agents.answer_first import AnswerFirstAgent, AnswerFirstTask
from archqa.agents.evidence_writing import EvidenceDecisionAgent, EvidenceDecisionTask
from archqa.agents.exemplars import Exemplar, ExemplarSentence
from archqa.agents.follow_up import AskedTurn, FollowUpAgent, FollowUpTask
from archqa.agents.note_answer import NoteAnswerAgent, NoteAnswerTask, NoteLine
from archqa.agents.note_answer_check import NoteAnswerCheckAgent, NoteAnswerCheckTask
from archqa.agents.question_interpretation import (
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.agents.verification import VerificationAgent, VerificationTask
from archqa.agents.voting import GeneralVotingAgent, SpecialistVotingAgent, VotingTask
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Phrase
from archqa.core.judgement import Relevance
from archqa.core.value import FrozenModel
from archqa.llm.prompts import default_prompts
from archqa.tasks import load_cases
from tests.agents.rendering import check_snapshot

CONTEXT = "1. Background that a reader needs."
EXEMPLAR = Exemplar(
    digest="0",
    question="Why was a drain placed?",
    sentences=(
        ExemplarSentence(mark="E1", text="The drain emptied pus.", label=Relevance.ESSENTIAL),
    ),
    others=7,
    answer=CitedAnswer(claims=(Claim(text="It emptied an abscess.", citations=("E1",)),)),
)


def mini() -> Case:
    case = load_cases("mini").notes[0]
    return case.model_copy(update={"answer_sentences": (Phrase(id="1", text="It was takotsubo."),)})


def task_of(agent: Agent) -> FrozenModel:  # type: ignore[type-arg]
    case = mini()
    first, second = (sentence.id for sentence in case.sentences[:2])
    line = NoteLine(text="It was takotsubo.", citations=(first, second))
    shown = {"case": case, "context": CONTEXT, "exemplars": (EXEMPLAR,)}
    tasks: dict[type, FrozenModel] = {
        VotingTask: VotingTask(**shown, specialty="cardiology"),
        AnswerFirstTask: AnswerFirstTask(**shown),
        VerificationTask: VerificationTask(
            case=case,
            context=CONTEXT,
            chosen=(first, second),
            doubtful=(second,),
            draft=CitedAnswer(claims=(Claim(text="It was takotsubo.", citations=(first, second)),)),
        ),
        EvidenceDecisionTask: EvidenceDecisionTask(
            case=case, context=CONTEXT, chosen=(first, second)
        ),
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
        NoteAnswerCheckTask: NoteAnswerCheckTask.from_lines(case, (line,)),
    }
    return tasks[agent.task_type]


AGENTS: tuple[Agent, ...] = (  # type: ignore[type-arg]
    GeneralVotingAgent(),
    SpecialistVotingAgent(),
    AnswerFirstAgent(),
    VerificationAgent(),
    EvidenceDecisionAgent(),
    QuestionInterpretationAgent(),
    AlignmentAgent(),
    NoteAnswerAgent(),
    NoteAnswerCheckAgent(),
    FollowUpAgent(),
)
PROMPTS = [(agent, agent.prompt) for agent in AGENTS] + [(AnswerFirstAgent(), "answer_first/v2")]


@pytest.mark.parametrize(("agent", "prompt"), PROMPTS, ids=[prompt for _, prompt in PROMPTS])
def test_a_prompt_asks_only_for_fields_of_its_agents_task(agent: Agent, prompt: str) -> None:  # type: ignore[type-arg]
    assert default_prompts().fields(prompt) <= set(agent.task_type.model_fields)


@pytest.mark.parametrize(("agent", "prompt"), PROMPTS, ids=[prompt for _, prompt in PROMPTS])
def test_the_rendered_prompt_of_a_mini_case_is_the_snapshot(agent: Agent, prompt: str) -> None:  # type: ignore[type-arg]
    check_snapshot(prompt, task_of(agent))


def test_without_exemplars_a_prompt_says_nothing_of_them() -> None:
    task = VotingTask(case=mini())
    words = "\n".join(
        message.content for message in default_prompts().render("general_vote/v1", dict(task))
    )
    assert "exemplar" not in words


def test_the_specialty_comes_last_so_that_servers_reuse_what_is_before_it() -> None:
    tasks = (
        VotingTask(case=mini(), specialty=specialty) for specialty in ("cardiology", "oncology")
    )
    first, second = (
        default_prompts().render("specialist_vote/v1", dict(task))[1].content for task in tasks
    )
    assert first.removesuffix("cardiology") == second.removesuffix("oncology")
