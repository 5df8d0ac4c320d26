"""A spending limit for a whole run."""

from typing import Protocol

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.model import Model, Reply, Request


class BudgetProtocol(Protocol):
    """Whoever knows what may still be spent."""

    async def check(self, model: str) -> None:
        """Raise `BudgetExceeded` if nothing more may be spent, or if that cannot be known."""
        ...

    async def add(self, usage: Usage) -> None:
        """Count a reply."""
        ...


class Budget:
    """What may be spent, and what has been, by all models of a run together. `most` is in US dollars."""

    def __init__(self, most: float | None) -> None:
        self._most = most
        self._spent = Usage()

    async def check(self, model: str) -> None:
        """Raise `BudgetExceeded` if nothing more may be spent, or if that cannot be known."""
        if self._most is None:
            return
        if self._spent.cost_usd is None:
            raise BudgetExceeded(
                f"The price of {model} is not known, so --max-cost cannot be kept.\n"
                "Set it in the configuration ([prices]) or leave --max-cost out."
            )
        if self._spent.cost_usd >= self._most:
            raise BudgetExceeded(
                f"The budget of ${self._most:.2f} is spent (${self._spent.cost_usd:.4f}).\n"
                "Raise --max-cost and go on with --resume."
            )

    async def add(self, usage: Usage) -> None:
        """Count a reply."""
        self._spent += usage


class BudgetedModel:
    """Asks only while money is left; replies already on their way still count."""

    def __init__(self, inner: Model, budget: BudgetProtocol) -> None:
        self._inner = inner
        self._budget = budget

    async def ask(self, request: Request) -> Reply:
        """Answer one request. Raises `BudgetExceeded`."""
        await self._budget.check(request.model)
        reply = await self._inner.ask(request)
        await self._budget.add(reply.usage)
        return reply
