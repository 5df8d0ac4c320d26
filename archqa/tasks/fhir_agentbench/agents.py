"""The five agents of FHIR-AgentBench: they converse with a model that has tools for one patient's
record.

Source: Lee et al., "FHIR-AgentBench" (ML4H 2025), §4, and glee4810/FHIR-AgentBench at bbb4290. The
pipelines decide the order of the turns; this module has the agents' tasks and prompts, and takes
one turn of a conversation.
"""

from archqa.agents.agent import Agent, Rejected, RunContext, check_finish
from archqa.agents.conversation import Conversation
from archqa.core.value import FrozenModel
from archqa.errors import ContextTooLong, Unusable
from archqa.llm.model import CHARACTERS_PER_TOKEN, FinishReason, Reply, ToolSpec
from archqa.tasks.fhir_agentbench.tools import RESOURCE_TYPES

_MAX_EMPTY_REPLIES = 5
"""Empty replies in a row after which a turn fails (the benchmark's retries of one call)."""

_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_PROMPT = 2
"""Tokens that the benchmark's count adds for each message, and once for the whole prompt."""


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


class FhirConversation(Conversation[RecordQuestionTask]):
    """A conversation about one question.

    A prompt of more than `max_tokens` raises `ContextTooLong`.
    """

    def __init__(
        self,
        agent: Agent[RecordQuestionTask, FinalMessage],
        task: RecordQuestionTask,
        context: RunContext,
        max_tokens: int,
    ) -> None:
        super().__init__(agent, task, context)
        self._max_tokens = max_tokens

    @property
    def tokens(self) -> int:
        """The prompt as the benchmark counts it, with characters / 4 for its tokenizer: tool calls
        do not count.
        """
        characters = sum(len(message.content) for message in self.messages)
        per_message = _TOKENS_PER_MESSAGE * len(self.messages)
        return characters // CHARACTERS_PER_TOKEN + per_message + _TOKENS_PER_PROMPT

    async def ask(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's next turn; an empty one is asked for again.

        Raises `CaseFailed`, `ModelError`.
        """
        for _ in range(_MAX_EMPTY_REPLIES):
            tokens = self.tokens
            if tokens > self._max_tokens:
                excess = f"Input tokens exceeded: {tokens} > {self._max_tokens}"
                raise ContextTooLong(f"{excess} (estimated: characters / {CHARACTERS_PER_TOKEN})")
            reply = await self.next_reply(tools)
            if reply.finish is not FinishReason.EMPTY:
                if not reply.tool_calls or reply.finish is not FinishReason.LENGTH:
                    check_finish(self._agent.name, reply)
                self.messages.append(reply.as_message)
                return reply
            self.add_prompt_text("repair/v1/empty.jinja")
        raise Unusable(f"{self._agent.name}: the model gave {_MAX_EMPTY_REPLIES} empty replies.")

    def keep_first_tool_call(self) -> None:
        """Remove all but the first tool call of the last turn."""
        last_turn = self.messages[-1]
        first_call = last_turn.tool_calls[:1]
        self.messages[-1] = last_turn.model_copy(update={"tool_calls": first_call})


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
            raise Rejected('Your "rationale" is empty. Say in one sentence what you compared.')
