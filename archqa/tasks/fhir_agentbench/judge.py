"""The judge of FHIR-AgentBench decides whether a reply states the reference answer.

It is used only where no rule decides.

Source: the benchmark's evaluation (glee4810/FHIR-AgentBench at bbb4290), whose rules for the judge
`prompts/judge/v1` states in archqa's wording.
"""

from archqa.agents.agent import Agent, CaseTask, Rejected
from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues


class JudgeTask(CaseTask):
    """A question, what is right by the benchmark, and what was replied.

    There is no note to look at.
    """

    case: Case = Case(id="")
    question: str
    reference: str
    reply: str


class Ruling(FrozenModel):
    """Whether the reply is right, and why.

    The reason comes first, so that it is thought of first.
    """

    rationale: str
    correct: bool


class JudgeAgent(Agent[JudgeTask, Ruling]):
    """Compares a reply with the reference answer, by the benchmark's rules."""

    name = "judge"
    prompt = "judge/v1"
    task_type = JudgeTask
    output_type = Ruling

    def choices(self, task: JudgeTask) -> AllowedValues:
        """None: a ruling names no ids."""
        return {}

    def check(self, task: JudgeTask, output: Ruling) -> None:
        """Reject a ruling without a reason."""
        if not output.rationale.strip():
            raise Rejected('Your "rationale" is empty. Say in one sentence what you compared.')
