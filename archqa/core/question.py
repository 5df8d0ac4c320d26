"""Questions about a patient of a FHIR record, and tasks to carry out on the record: no notes, no
answers.

Sources: FHIR-AgentBench's question file (its answers stay in its key); MedAgentBench's task file.
"""

from pydantic import Field

from archqa.core.case import Case
from archqa.core.value import FrozenModel


class RecordQuestion(FrozenModel):
    """A question that a patient's FHIR resources answer.

    `assumption` is the benchmark's context sentence. `is_time_stated`: its time is that of whoever
    asks, not the present or the end of the record; no file holds it, so that it is not written.
    """

    id: str
    question: str
    patient_fhir_id: str = ""
    assumption: str = ""
    is_time_stated: bool = Field(default=True, exclude=True)


class ClinicalTask(FrozenModel):
    """An instruction of MedAgentBench: a question to the record, or something to write into it."""

    id: str
    instruction: str
    context: str = ""


Item = Case | RecordQuestion | ClinicalTask
"""What a run answers one by one: a case, a question or a task, all with an `id`."""


def question_of(item: Item) -> str:
    """The question of a case or to a record, or the instruction of a task."""
    if isinstance(item, Case):
        of_patient = " ".join(phrase.text for phrase in item.patient_question)
        return item.clinician_question or of_patient or item.patient_narrative
    return item.instruction if isinstance(item, ClinicalTask) else item.question
