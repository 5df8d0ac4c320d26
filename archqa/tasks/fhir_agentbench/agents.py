"""Agents that talk with a model about one patient's record, tools at hand: the five of FHIR-AgentBench.

Source: Lee et al., "FHIR-AgentBench" (ML4H 2025), §4, and glee4810/FHIR-AgentBench at bbb4290. How they go about it is
the pipelines' affair; here is what they are told, and how one turn of the conversation is taken.
"""

from archqa.agents.agent import Agent, RunContext
from archqa.agents.dry_run_backend import DryRunBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, ContextTooLong, Refused, Truncated, Unusable
from archqa.llm.model import CHARACTERS_PER_TOKEN, FinishReason, Message, Reply, ToolCall, ToolSpec
from archqa.tasks.fhir_agentbench.retrieval_tools import RESOURCE_TYPES

_EMPTY_TRIES = 5
"""Times an empty reply is asked for again (the benchmark's retries of one call)."""

_EACH_MESSAGE, _IN_ALL = 4, 2
"""Tokens that the benchmark's count adds for each message, and once."""


class RecordQuestionTask(FrozenModel):
    """What an agent of a record is told: the question and nothing of its answer."""

    question: str
    patient_fhir_id: str = ""
    assumption: str = ""
    types: tuple[str, ...] = RESOURCE_TYPES


class FinalMessage(FrozenModel):
    """What a conversation ends with: the model's last message, whole."""

    answer: str


class FhirRequestAgent(Agent[RecordQuestionTask, FinalMessage]):
    """`single_turn_request`: writes the searches itself."""

    name = "fhir_request"
    prompt = "fhir_request/v1"
    takes = RecordQuestionTask
    returns = FinalMessage


class FhirRetrieverAgent(FhirRequestAgent):
    """`single_turn_resource`: names types and reads what comes."""

    name = "fhir_retriever"
    prompt = "fhir_retriever/v1"


class FhirRetrieverCodeAgent(FhirRequestAgent):
    """`single_turn_code_resource`: names types and writes code over what comes."""

    name = "fhir_retriever_code"
    prompt = "fhir_retriever_code/v1"


class FhirMultiTurnAgent(FhirRequestAgent):
    """`multi_turn_resource`: retrieves and reads as often as it needs."""

    name = "fhir_multi_turn"
    prompt = "fhir_multi_turn/v1"


class FhirMultiTurnCodeAgent(FhirRequestAgent):
    """`multi_turn_code_resource`: retrieves and computes as often as it needs."""

    name = "fhir_multi_turn_code"
    prompt = "fhir_multi_turn_code/v1"


class FhirConversation:
    """What was said about one question. A turn whose messages exceed `most_tokens` raises `ContextTooLong`."""

    def __init__(
        self,
        agent: Agent[RecordQuestionTask, FinalMessage],
        task: RecordQuestionTask,
        desk: RunContext,
        most_tokens: int,
    ) -> None:
        mind = desk.mind(agent.name)
        if not isinstance(mind, ModelBackend | DryRunBackend):
            raise CallerError(
                f"{agent.name} converses with a model: no other mind can do it.\n"
                "Name a model with --model or --base-url, or take --pipeline planner."
            )
        self._mind = mind
        self._agent = agent
        self._task = task
        self._desk = desk
        self._most_tokens = most_tokens
        self._recorded = 0
        self.messages = list(mind.opening(agent, task))

    @property
    def tokens(self) -> int:
        """The prompt as the benchmark counts it, with characters / 4 for its tokenizer: tool calls do not count."""
        said = sum(len(message.content) for message in self.messages) // CHARACTERS_PER_TOKEN
        return said + _EACH_MESSAGE * len(self.messages) + _IN_ALL

    async def ask(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's next turn; an empty one is asked for again. Raises `CaseFailed`, `ModelError`."""
        for _ in range(_EMPTY_TRIES):
            reply = await self._turn(tools)
            if reply.finish is not FinishReason.EMPTY:
                return self._heard(reply)
            self.messages.append(
                Message(role="user", content=self._mind.words("repair/v1/empty.jinja"))
            )
        raise Unusable(f"{self._agent.name}: the model gave {_EMPTY_TRIES} empty replies.")

    def tell(self, call: ToolCall, result: str) -> None:
        """What a tool gave for a call."""
        self.messages.append(Message(role="tool", content=result, tool_call_id=call.id))

    def keep_first_tool_call(self) -> None:
        """Forget all but the first tool that the last turn called."""
        last = self.messages[-1]
        self.messages[-1] = last.model_copy(update={"tool_calls": last.tool_calls[:1]})

    async def _turn(self, tools: tuple[ToolSpec, ...]) -> Reply:
        if self.tokens > self._most_tokens:
            counted = f"Input tokens exceeded: {self.tokens} > {self._most_tokens}"
            raise ContextTooLong(f"{counted} (estimated: characters / {CHARACTERS_PER_TOKEN})")
        reply = await self._mind.say(
            self._agent, self._task, self._desk, tuple(self.messages), tools, self._recorded
        )
        self._recorded = len(self.messages)
        return reply

    def _heard(self, reply: Reply) -> Reply:
        if reply.finish in {FinishReason.REFUSED, FinishReason.FILTERED}:
            raise Refused(f"{self._agent.name}: the model declined ({reply.finish}).")
        if reply.finish is FinishReason.LENGTH and not reply.tool_calls:
            name = self._agent.name
            raise Truncated(f"{name}: the reply was cut off; raise agents.{name}.max_tokens.")
        self.messages.append(reply.as_message)
        return reply
