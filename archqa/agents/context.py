"""Stage 1 of 6: the medical background needed to judge the note (paper §3.2, Context Generation)."""

import re

from archqa.agents.agent import Agent, CaseTask, Rejected
from archqa.core.value import FrozenModel

MAX_CONTEXT_WORDS = 150
"""As the prompt says. Every later stage is sent the context."""

_SENTENCE_END = re.compile(r"(?<=[a-z)])[.!?](?=\s|$)")


class MedicalContext(FrozenModel):
    """The medical context K: prose, in numbered points where there are several."""

    context: str

    def shortened(self) -> str:
        """The whole sentences within the limit; the words within it where the first is longer.

        It is cut and not sent back: a repair would cost more than the words that are too many.
        """
        words = list(re.finditer(r"\S+", self.context))
        if len(words) <= MAX_CONTEXT_WORDS:
            return self.context
        text = self.context[: words[MAX_CONTEXT_WORDS - 1].end()]
        ends = list(_SENTENCE_END.finditer(text))
        return text[: ends[-1].end()] if ends else text


class MedicalContextAgent(Agent[CaseTask, MedicalContext]):
    """Explains the medicine behind the question, from the question and the note."""

    name = "context"
    prompt = "context/v3"
    task_type = CaseTask
    output_type = MedicalContext

    def check(self, task: CaseTask, output: MedicalContext) -> None:
        """The context is not empty."""
        if not output.context.strip():
            raise Rejected(
                "The context is empty. Write the medical background a reader of this note needs."
            )
