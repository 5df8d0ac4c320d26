"""Stage 1 of 6: the medical background needed to judge the note (paper §3.2, Context Generation)."""

from archqa.agents.agent import Agent, CaseTask, Rejected
from archqa.core.value import FrozenModel


class MedicalContext(FrozenModel):
    """The medical context K: prose, in numbered points where there are several."""

    context: str


class MedicalContextAgent(Agent[CaseTask, MedicalContext]):
    """Explains the medicine behind the question, from the question and the note."""

    name = "context"
    prompt = "context/v2"
    task_type = CaseTask
    output_type = MedicalContext

    def check(self, task: CaseTask, output: MedicalContext) -> None:
        """The context is not empty."""
        if not output.context.strip():
            raise Rejected(
                "The context is empty. Write the medical background a reader of this note needs."
            )
