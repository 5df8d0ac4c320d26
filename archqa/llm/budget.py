"""A spending limit for a whole run."""

from typing import Protocol

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.model import Model, Reply, Request


class BudgetProtocol(Protocol):
    """A spending limit: of this process, or shared by several."""

    async def check(self, model: str) -> None:
        """Raise `BudgetExceeded` if the limit is reached, or if spending cannot be known."""
        ...

    async def add(self, usage: Usage) -> None:
        """Count the usage of a reply."""
        ...


class Budget:
    """The limit and the spending of all models of a run, or of several runs, together.

    `limit_usd` is in US dollars; None sets no limit. `advice` says how to go on when it is spent.
    """

    def __init__(
        self, limit_usd: float | None, advice: str = "Raise --max-cost and go on with --resume."
    ) -> None:
        self._limit_usd = limit_usd
        self._advice = advice
        self._usage = Usage()

    async def check(self, model: str) -> None:
        """Raise `BudgetExceeded` if the limit is reached, or if spending cannot be known."""
        if self._limit_usd is None:
            return
        spent = self._usage.cost_usd
        if spent is None:
            raise BudgetExceeded(
                f"The price of {model} is not known, so --max-cost cannot be kept.\n"
                "Set it in the configuration ([prices]) or leave --max-cost out."
            )
        if spent >= self._limit_usd:
            raise BudgetExceeded(
                f"The budget of ${self._limit_usd:.2f} is spent (${spent:.4f}).\n{self._advice}"
            )

    async def add(self, usage: Usage) -> None:
        """Count the usage of a reply."""
        self._usage += usage


class BudgetedModel:
    """Asks only while the budget lasts; replies to requests already sent still count."""

    def __init__(self, inner: Model, budget: BudgetProtocol) -> None:
        self._inner = inner
        self._budget = budget

    async def ask(self, request: Request) -> Reply:
        """Answer one request. Raises `BudgetExceeded`."""
        await self._budget.check(request.model)
        reply = await self._inner.ask(request)
        await self._budget.add(reply.usage)
        return reply
