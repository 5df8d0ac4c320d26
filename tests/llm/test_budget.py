"""A spending limit stops asking; it never loses what was answered."""

import pytest

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.limits import Budget, BudgetedModel
from archqa.llm.model import Reply
from archqa.llm.scripted import ScriptedModel
from tests.llm.asking import make_request


def costing(dollars: float | None) -> Reply:
    return Reply(text="fine", usage=Usage(calls=1, cost_usd=dollars))


async def test_requests_are_answered_until_the_money_is_spent() -> None:
    script = ScriptedModel(lambda _: costing(0.04))
    model = BudgetedModel(script, Budget(0.10))
    for _ in range(3):
        assert (await model.ask(make_request())).text == "fine"
    with pytest.raises(
        BudgetExceeded, match=r"\$0\.10 is spent \(\$0\.1200\).*\n.*max_cost"
    ):
        await model.ask(make_request())
    assert len(script.asked) == 3


async def test_a_budget_cannot_be_kept_without_a_price() -> None:
    model = BudgetedModel(ScriptedModel(lambda _: costing(None)), Budget(10.0))
    await model.ask(make_request())
    with pytest.raises(BudgetExceeded, match="price of fake is not known"):
        await model.ask(make_request())


async def test_a_failed_request_costs_nothing() -> None:
    model = BudgetedModel(ScriptedModel([KeyError("x"), costing(0.01)]), Budget(0.01))
    with pytest.raises(KeyError):
        await model.ask(make_request())
    assert (await model.ask(make_request())).text == "fine"
