"""The contract of the room: an `Agent` is a prompt, two types and a check; a `FakeModel` performs it at a `RunContext`.

Which mind performs an agent (a model server, the embedded engine, a script) is the desk's affair. Whichever it is,
the output is the same type and has passed the same check.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from archqa.core.case import Case
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.errors import CallerError
from archqa.fhir.record import Record
from archqa.fhir.write.audit import AuditLog
from archqa.llm.model import Reply
from archqa.llm.structured import AllowedValues, Rejected

if TYPE_CHECKING:
    from archqa.agents.exemplars import ExemplarIndex

__all__ = ["Agent", "Backend", "CaseTask", "Rejected", "RunContext", "check_ids", "join_ids"]


class CaseTask(FrozenModel):
    """What every agent that reads a case is given: the case, and the medical context if that stage was on."""

    case: Case
    context: str = ""


ConfirmWrite = Callable[[str, Mapping[str, Any]], bool]
"""Asks a person whether a resource may be posted to a URL."""

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


class Agent(Generic[Task, Output]):
    """One role. Stateless; holds no model."""

    name: ClassVar[str]
    prompt: ClassVar[str]
    takes: type[Task]
    returns: type[Output]
    likelihoods: ClassVar[bool] = False

    def choices(self, task: Task) -> AllowedValues:
        """What may stand where the output type is marked with `choices`, for this very task."""
        return {"sentence": task.case.sentence_ids} if isinstance(task, CaseTask) else {}

    def check(self, task: Task, output: Output) -> None:
        """Raise `Rejected` with words for the model when the output will not do."""

    def mend(self, task: Task, output: Output) -> Output | None:
        """What can be saved of an output that still fails its check after the last turn; None if nothing."""
        return None

    def weigh(self, task: Task, output: Output, reply: Reply) -> Output:
        """The output with what the tokens of the reply say of it; asked for where `likelihoods` is set."""
        return output

    def about(self, task: Task) -> str:
        """What sets this call apart from the agent's others on the case, for traces: a sentence id, a specialty."""
        return ""

    async def run(self, task: Task, desk: "RunContext") -> Output:
        """Perform the task with the mind the desk has for this agent. Raises `CaseFailed`, `ModelError`."""
        return await desk.mind(self.name).perform(self, task, desk)


class Backend(Protocol):
    """Whoever performs agents: returns a checked output and records each step at the desk."""

    kind: str

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: "RunContext") -> Output:
        """Perform one task of one agent."""
        ...


class RunContext:
    """Where the agents of one case work: who performs whom, the patient's record, and the record of every step."""

    def __init__(
        self,
        minds: Mapping[str, Backend],
        record: Callable[[Step], Any] = lambda _: None,
        store: Record | None = None,
        voters: Mapping[str, Mapping[str, Backend]] | None = None,
        exemplars: "ExemplarIndex | None" = None,
    ) -> None:
        self._minds = minds
        self.record = record
        self.exemplars = exemplars
        self.audit: AuditLog | None = None
        self.confirm: ConfirmWrite | None = None
        self._store = store
        self._voters = voters or {}

    @property
    def store(self) -> Record:
        """The FHIR record that questions are asked of. Raises `CallerError` if the run has none."""
        if self._store is None:
            raise CallerError("This needs a FHIR record.\nName a store or a server with --record.")
        return self._store

    def mind(self, agent: str) -> Backend:
        """Who performs the agent of this name."""
        return self._minds[agent]

    def voters(self, agent: str) -> Mapping[str, Backend]:
        """Everyone who performs the agent of this name where several may, by the name they vote under."""
        return self._voters.get(agent) or {self._minds[agent].kind: self._minds[agent]}


def check_ids(ids: Iterable[str], case: Case, what: str) -> None:
    """Reject ids the note does not have, naming those it has."""
    invented = sorted(set(ids) - set(case.sentence_ids))
    if invented:
        raise Rejected(
            f"{what} {join_ids(invented)}; the note has only {join_ids(case.sentence_ids)}."
        )


def join_ids(ids: Iterable[str]) -> str:
    """Ids as they are said to a model."""
    return ", ".join(ids)
