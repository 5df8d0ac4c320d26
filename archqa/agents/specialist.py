"""Fourth of the six: a specialist labels every sentence from the view of the field (paper §3.2, Domain-Specific)."""

from archqa.agents.judging import JudgingAgent, JudgingTask, Verdicts, check_verdicts, usable


class SpecialistTask(JudgingTask):
    """The case, and the specialty it is to be seen from."""

    specialty: str


class Specialist(JudgingAgent[SpecialistTask, Verdicts]):
    """Labels all sentences in one call."""

    name = "specialist"
    prompt = "specialist/v1"
    takes = SpecialistTask
    returns = Verdicts

    def check(self, task: SpecialistTask, output: Verdicts) -> None:
        """Every sentence of the note once."""
        check_verdicts(task, output, task.case.sentence_ids)

    def mend(self, task: SpecialistTask, output: Verdicts) -> Verdicts | None:
        """Keep the labels that are usable; the others are missing votes."""
        return usable(output, task.case.sentence_ids)

    def about(self, task: SpecialistTask) -> str:
        """The specialty."""
        return task.specialty
