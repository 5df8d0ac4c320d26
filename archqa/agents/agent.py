"""What an agent and a backend are.

An `Agent` is a prompt, a task type, an output type and a check. It has no state and no model. A
`Backend` runs agents: a model server, the embedded engine, the query grammar, a dry run, or one of
your own. Every backend returns the agent's output type, and the output has passed the agent's
check. A `RunContext` says which backend runs which agent on a case.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, Refused, Truncated, Unusable
from archqa.llm.model import FinishReason, Message, Reply, ToolSpec
from archqa.llm.prompts import Prompts, default_prompts, prompts_in
from archqa.llm.structured import AllowedValues, strict_schema
from archqa.llm.structured import Rejected as Rejected

if TYPE_CHECKING:
    from archqa.fhir import AuditLog, Record


class CaseTask(FrozenModel):
    """What every agent that reads a case is given: the case, and the medical context if that stage was on."""

    case: Case
    context: str = ""


ConfirmWrite = Callable[[str, Mapping[str, Any]], bool]
"""Asks a person whether a resource may be posted to a URL."""

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


class Agent(Generic[Task, Output]):
    """One role. Stateless; holds no model.

    `prompts_folder` is the folder with `prompt`; None is archqa's own.
    """

    name: ClassVar[str]
    prompt: ClassVar[str]
    prompts_folder: ClassVar[Path | None] = None
    task_type: type[Task]
    output_type: type[Output]

    @classmethod
    def prompts(cls) -> Prompts:
        """The prompts of its folder."""
        return (
            prompts_in(cls.prompts_folder) if cls.prompts_folder else default_prompts()
        )

    def choices(self, task: Task) -> AllowedValues:
        """The values allowed in output fields that are marked with `choices`, for this task."""
        return (
            {"sentence": task.case.sentence_ids} if isinstance(task, CaseTask) else {}
        )

    def output_schema(self, task: Task) -> dict[str, Any]:
        """The JSON Schema of a reply."""
        return strict_schema(self.output_type, self.choices(task))

    def check(self, task: Task, output: Output) -> None:
        """Raise `Rejected`, with a message for the model, if the output is not acceptable."""

    def salvage(self, task: Task, output: Output) -> Output | None:
        """The usable part of an output that fails its check even after the last turn; None if there
        is none.
        """
        return None

    def checked(self, task: Task, output: Output) -> tuple[Output | None, str]:
        """The output, or else what can be saved of it, and why it fails its check (empty if not)."""
        try:
            self.check(task, output)
        except Rejected as rejection:
            return self.salvage(task, output), str(rejection)
        return output, ""

    def call_label(self, task: Task) -> str:
        """What distinguishes this call from the agent's other calls on the case, such as a sentence
        id.
        """
        return ""

    async def run(self, task: Task, context: "RunContext") -> Output:
        """Run the task on the backend that the context has for this agent.

        Raises `CaseFailed`, `ModelError`.
        """
        return await context.backend(self.name).run(self, task, context)


class Backend(Protocol):
    """What runs agents: write a class with these two methods to bring a backend of your own.

    `archqa.predict(cases, backend=MyBackend())` runs a pipeline with it; an entry point of the
    group `archqa.backends` gives it a name for `--backend NAME`. archqa applies the agent's check to
    every output and records every call that the backend has not recorded itself.
    """

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: "RunContext"
    ) -> Output:
        """Run one task of one agent and return its `output_type`. Raises `CaseFailed`."""
        ...

    async def converse(
        self,
        agent: Agent[Task, Output],
        task: Task,
        context: "RunContext",
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        already_recorded: int = 0,
    ) -> Reply:
        """The next turn of a conversation, with `tools` on offer.

        The first `already_recorded` messages are in the trace already. Raises `Unusable` if this
        backend cannot converse, else `CaseFailed` and `ModelError`.
        """
        _needs_model(agent)


class PromptingBackend(Backend, Protocol):
    """What a run context has: a backend that also renders the prompts of its conversations.

    As it stands here, it cannot hold any.
    """

    kind: str

    def prompt_name(self, agent: Agent[Task, Output]) -> str:
        """The prompt version used for this agent: its own, or the one that the settings name
        instead.
        """
        return agent.prompt

    def initial_messages(
        self, agent: Agent[Task, Output], task: Task
    ) -> tuple[Message, ...]:
        """The first messages of a conversation. Raises `Unusable` if this backend cannot converse."""
        _needs_model(agent)

    def prompt_text(self, agent: Agent[Task, Output], template: str) -> str:
        """A fixed text of the prompts folder, such as `repair/v1/empty.jinja`.

        Raises `Unusable` as above.
        """
        _needs_model(agent)


class RenderingBackend(PromptingBackend):
    """Base of the backends that converse: renders the agents' prompts for them."""

    def prompts_of(self, agent: Agent[Task, Output]) -> Prompts:
        """The folder that the agent's prompts are in."""
        return agent.prompts()

    def initial_messages(
        self, agent: Agent[Task, Output], task: Task
    ) -> tuple[Message, ...]:
        """The agent's prompt, rendered for the task."""
        return self.prompts_of(agent).render(self.prompt_name(agent), dict(task))

    def prompt_text(self, agent: Agent[Task, Output], template: str) -> str:
        """A fixed text of the prompts folder."""
        return self.prompts_of(agent).render_text(template, {})

    def turn_fields(
        self, agent: Agent[Task, Output], messages: Iterable[Message], reply: Reply
    ) -> dict[str, Any]:
        """The fields of a `Step` that say what was sent and replied."""
        prompt = self.prompt_name(agent)
        return {
            "prompt": prompt,
            "prompt_digest": self.prompts_of(agent).digest(prompt),
            "messages": tuple(message.model_dump() for message in messages),
            "reply": reply.text,
            "finish": reply.finish,
            "tool_calls": tuple(call.model_dump() for call in reply.tool_calls),
            "usage": reply.usage,
        }


class SingleReplyBackend(PromptingBackend):
    """Base of the backends that return an output at once and cannot hold a conversation."""


def _needs_model(agent: Agent[Any, Any]) -> NoReturn:
    raise Unusable(
        f"The agent {agent.name} converses with a model; no other backend can run it.\n"
        "Name a model with --model or --base-url."
    )


@dataclass(frozen=True)
class RunContext:
    """What the agents of one case share: who runs them, the patient's record, and where steps are
    recorded.

    `audit` logs writes to the record; `confirm` is asked before each of them.
    """

    backends: Mapping[str, PromptingBackend]
    record_step: Callable[[Step], object] = lambda _: None
    fhir_record: "Record | None" = None
    audit: "AuditLog | None" = None
    confirm: ConfirmWrite | None = None

    @property
    def store(self) -> "Record":
        """The FHIR record that questions are asked of. Raises `CallerError` if the run has none."""
        if self.fhir_record is None:
            raise CallerError(
                "This needs a FHIR record.\nName a store or a server with --record."
            )
        return self.fhir_record

    def backend(self, agent: str) -> PromptingBackend:
        """The backend that runs the agent of this name."""
        return self.backends[agent]


def step_of(
    agent: Agent[Task, Output],
    task: Task,
    output: Output | None,
    rejected: str,
    **fields: Any,
) -> Step:
    """The step of a call: what came of it, and `fields` that say who did it."""
    return Step(
        agent=agent.name,
        about=agent.call_label(task),
        parsed=None if output is None else output.model_dump(mode="json"),
        rejected=rejected,
        repaired=bool(rejected) and output is not None,
        **fields,
    )


def check_finish(agent: str, reply: Reply) -> None:
    """Raise `Refused` for a reply that the model or its provider declined, `Truncated` for one that
    was cut off.
    """
    if reply.finish in {FinishReason.REFUSED, FinishReason.FILTERED}:
        raise Refused(f"{agent}: the model declined ({reply.finish}).")
    if reply.finish is FinishReason.LENGTH:
        raise Truncated(
            f"{agent}: the reply was cut off{'' if reply.text else ' before an answer began'}; "
            f"raise agents.{agent}.max_tokens."
        )


def reject_all(*problems: str) -> None:
    """Raise `Rejected` with all problems, one a line; empty ones are none.

    A model that hears of one problem at a time needs a turn for each.
    """
    stated = [problem for problem in problems if problem]
    if stated:
        raise Rejected("\n".join(stated))


def invented_ids(ids: Iterable[str], case: Case, accusation: str) -> str:
    """What is wrong with ids that the note does not have, and which it has; `accusation` begins it."""
    invented = sorted(set(ids) - set(case.sentence_ids))
    if not invented:
        return ""
    return f"{accusation} {list_ids(invented)}; the note has only {join_ids(case.sentence_ids)}."


def join_ids(ids: Iterable[str]) -> str:
    """Ids as a model is shown them."""
    return ", ".join(ids)
