"""What scoring asks of a judge: an agent's output on each task, one for each vote."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from archqa.agents.agent import Agent
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel

Output = TypeVar("Output", bound=FrozenModel)


class Opinion(NamedTuple, Generic[Output]):
    """One vote on one task. `output` is None where the model gave no usable one; `failure` says why."""

    output: Output | None
    failure: str = ""


class Judge(Protocol):
    """A model by name, which is asked `votes` times."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def votes(self) -> int:
        """Votes on each task."""

    def judge(
        self, agent: Agent[Any, Output], tasks: Sequence[FrozenModel]
    ) -> tuple[list[tuple[Opinion[Output], ...]], Usage]:
        """The opinions of an agent on each task, in order, and their cost.

        Raises `ModelError`, `BudgetExceeded`.
        """
