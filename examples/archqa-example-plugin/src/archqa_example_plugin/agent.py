"""An agent: a prompt, a task type, an output type and a check."""

from pathlib import Path

from archqa.agents import Agent, CaseTask, Rejected
from archqa.core.value import FrozenModel


class PlainAnswer(FrozenModel):
    """An answer in one sentence, and the id of the note's sentence that it rests on."""

    answer: str
    sentence_id: str


class PlainAnswerAgent(Agent[CaseTask, PlainAnswer]):
    """Answers a question from a note in one sentence."""

    name = "plain_answer"
    prompt = "plain_answer/v1"
    prompts_folder = Path(__file__).parent / "prompts"
    task_type = CaseTask
    output_type = PlainAnswer

    def check(self, task: CaseTask, output: PlainAnswer) -> None:
        """The answer is not empty, and the note has the sentence. A model gets the reason back."""
        if not output.answer.strip():
            raise Rejected("The answer is empty.")
        if output.sentence_id not in task.case.sentence_ids:
            raise Rejected(f"The note has no sentence {output.sentence_id}.")
