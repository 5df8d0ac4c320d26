"""A spending limit for a whole run."""

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.base import Model, Reply, Request


class BudgetedModel:
    """Refuses further requests once `max_cost` dollars are spent; replies already on their way still count.

    A model without a known price cannot be held to a budget, so its first reply stops the run.
    """

    def __init__(self, inner: Model, max_cost: float) -> None:
        self._inner = inner
        self._max_cost = max_cost
        self._spent = Usage()

    async def ask(self, request: Request) -> Reply:
        """Answer one request if money is left."""
        if self._spent.cost_usd is None:
            raise BudgetExceeded(
                f"The price of {request.model} is not known, so --max-cost cannot be kept.\n"
                "Set it in the configuration ([prices]) or leave --max-cost out."
            )
        if self._spent.cost_usd >= self._max_cost:
            raise BudgetExceeded(
                f"The budget of ${self._max_cost:.2f} is spent (${self._spent.cost_usd:.4f}).\n"
                "Raise --max-cost and go on with --resume."
            )
        reply = await self._inner.ask(request)
        self._spent += reply.usage
        return reply
