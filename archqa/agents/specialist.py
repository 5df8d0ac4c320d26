"""Stage 4 of 6: a specialist labels every sentence from the view of the field (paper §3.2,
Domain-Specific).
"""

from archqa.agents.labelling import (
    LabellingAgent,
    LabellingTask,
    Verdicts,
    check_verdicts,
    first_verdicts,
)


class SpecialistTask(LabellingTask):
    """The case, and the specialty it is to be seen from."""

    specialty: str


class SpecialistAgent(LabellingAgent[SpecialistTask, Verdicts]):
    """Labels all sentences in one call."""

    name = "specialist"
    prompt = "specialist/v1"
    task_type = SpecialistTask
    output_type = Verdicts

    def check(self, task: SpecialistTask, output: Verdicts) -> None:
        """Every sentence of the note is labelled once."""
        check_verdicts(task, output.verdicts, task.case.sentence_ids)

    def salvage(self, task: SpecialistTask, output: Verdicts) -> Verdicts | None:
        """The first label of each sentence; other labels are missing."""
        return first_verdicts(output, task.case.sentence_ids)

    def call_label(self, task: SpecialistTask) -> str:
        """The specialty."""
        return task.specialty
