"""The five agents of FHIR-AgentBench: they converse with a model that has tools for one patient's
record.

Source: Lee et al., "FHIR-AgentBench" (ML4H 2025), §4, and glee4810/FHIR-AgentBench at bbb4290. The
pipelines decide the order of the turns; this module has the agents' tasks and prompts, and the
judge of their answers.
"""

from archqa.agents.agent import Agent, Rejected
from archqa.core.value import FrozenModel
from archqa.tasks.fhir_agentbench.tools import RESOURCE_TYPES


class TypeCount(FrozenModel):
    """A type of resources, and how many of them a patient has."""

    type: str
    count: int


class RecordQuestionTask(FrozenModel):
    """What an agent of a record is told: the question and nothing of its answer.

    `types` are those of the benchmark, `type_counts` those that the record holds for the patient.
    `leaves_out_later_rows`: tools leave out what is dated after the time of the question.
    """

    question: str
    patient_fhir_id: str = ""
    assumption: str = ""
    types: tuple[str, ...] = RESOURCE_TYPES
    type_counts: tuple[TypeCount, ...] = ()
    leaves_out_later_rows: bool = False


class FinalMessage(FrozenModel):
    """What a conversation ends with: the model's last message, whole."""

    answer: str


class FhirRequestAgent(Agent[RecordQuestionTask, FinalMessage]):
    """`single_turn_request`: writes the searches itself."""

    name = "fhir_request"
    prompt = "fhir_request/v2"
    task_type = RecordQuestionTask
    output_type = FinalMessage


class FhirRetrieverAgent(FhirRequestAgent):
    """`single_turn_resource`: names types and reads what comes."""

    name = "fhir_retriever"
    prompt = "fhir_retriever/v2"


class FhirRetrieverCodeAgent(FhirRequestAgent):
    """`single_turn_code_resource`: names types and writes code over what comes."""

    name = "fhir_retriever_code"
    prompt = "fhir_retriever_code/v2"


class FhirMultiTurnAgent(FhirRequestAgent):
    """`multi_turn_resource`: retrieves and reads as often as it needs."""

    name = "fhir_multi_turn"
    prompt = "fhir_multi_turn/v2"


class FhirMultiTurnCodeAgent(FhirRequestAgent):
    """`multi_turn_code_resource`: retrieves and computes as often as it needs."""

    name = "fhir_multi_turn_code"
    prompt = "fhir_multi_turn_code/v3"


class RecordCodeAgent(FhirMultiTurnCodeAgent):
    """The same outside of the benchmark: it is told the types that the record holds."""

    prompt = "fhir_multi_turn_code/v4"


class JudgeTask(FrozenModel):
    """A question, what is right by the benchmark, and what was replied."""

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
    """Decides whether a reply states the reference answer. It is used only where no rule decides.

    Source: the benchmark's evaluation (glee4810/FHIR-AgentBench at bbb4290), whose rules for the
    judge `prompts/judge/v1` states in archqa's wording.
    """

    name = "judge"
    prompt = "judge/v1"
    task_type = JudgeTask
    output_type = Ruling

    def check(self, task: JudgeTask, output: Ruling) -> None:
        """Reject a ruling without a reason."""
        if not output.rationale.strip():
            raise Rejected(
                'Your "rationale" is empty. Say in one sentence what you compared.'
            )
