"""A question about one patient of a FHIR record, and what is left to be done to the record: no notes, no answers.

Sources: FHIR-AgentBench's question file (its answers stay in its key); MedAgentBench's task file.
"""

from archqa.core.case import Case
from archqa.core.value import FrozenModel


class RecordQuestion(FrozenModel):
    """One question that a patient's FHIR resources answer. `assumption` is the benchmark's context sentence."""

    id: str
    question: str
    patient_fhir_id: str = ""
    assumption: str = ""


class ClinicalTask(FrozenModel):
    """One instruction of MedAgentBench: a question to the record, or something to be written into it."""

    id: str
    instruction: str
    context: str = ""


Item = Case | RecordQuestion | ClinicalTask
"""What a run works off, one at a time: a case, a question or a task. Each has an `id`."""
