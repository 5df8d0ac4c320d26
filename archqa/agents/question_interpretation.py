"""The short clinician's question behind a patient's message (ArchEHR-QA 2026, subtask 1).

The task has the message alone: a clinician's question in the case is the key, so the agent must not
see it.
"""

from archqa.agents.agent import Agent, CaseTask, Rejected
from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues

MAX_QUESTION_WORDS = 15
"""Words of a question that are scored (ArchEHR-QA 2026, subtask 1)."""


class QuestionInterpretationTask(CaseTask):
    """A message to be read. Made by `of`, which leaves out all but the message."""

    word_limit: int = MAX_QUESTION_WORDS

    @classmethod
    def from_case(cls, case: Case) -> "QuestionInterpretationTask":
        """The task of a case, without everything but the patient's own message."""
        return cls(case=Case(id=case.id, patient_narrative=case.patient_narrative))


class ClinicianQuestion(FrozenModel):
    """The question as a clinician would put it to the record."""

    question: str


class QuestionInterpretationAgent(Agent[QuestionInterpretationTask, ClinicianQuestion]):
    """Says what the patient wants to know in at most 15 words."""

    name = "question_interpretation"
    prompt = "question_interpretation/v1"
    task_type = QuestionInterpretationTask
    output_type = ClinicianQuestion

    def choices(self, task: QuestionInterpretationTask) -> AllowedValues:
        """No ids to choose from."""
        return {}

    def check(
        self, task: QuestionInterpretationTask, output: ClinicianQuestion
    ) -> None:
        """The question has words, and not too many."""
        count = len(output.question.split())
        if not count:
            raise Rejected(
                "Your question is empty. Write the one question the message asks."
            )
        if count > task.word_limit:
            raise Rejected(
                f"Your question has {count} words; at most {task.word_limit} are allowed."
            )

    def salvage(
        self, task: QuestionInterpretationTask, output: ClinicianQuestion
    ) -> ClinicianQuestion | None:
        """The first words, as many as the scorer counts."""
        question = " ".join(output.question.split()[: task.word_limit])
        return ClinicianQuestion(question=question) if question else None
