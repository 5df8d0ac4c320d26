"""Models that say what they are told to."""

import pytest

from archqa.errors import Refused
from archqa.llm.model import FinishReason
from archqa.llm.scripted import ScriptedModel
from tests.fakes.replies import refusal_reply, truncated_reply
from tests.llm.asking import make_request


async def test_lines_are_said_in_order_and_questions_remembered() -> None:
    model = ScriptedModel(["one", refusal_reply("no"), truncated_reply("tw")])
    replies = [await model.ask(make_request(str(number))) for number in range(3)]
    assert [(reply.text, reply.finish) for reply in replies] == [
        ("one", FinishReason.COMPLETE),
        ("no", FinishReason.REFUSED),
        ("tw", FinishReason.LENGTH),
    ]
    assert [request.messages[-1].content for request in model.asked] == ["0", "1", "2"]


async def test_a_script_may_be_a_function_of_the_question() -> None:
    model = ScriptedModel(lambda request: request.messages[-1].content.upper())
    assert (await model.ask(make_request("abc"))).text == "ABC"


async def test_an_exception_in_the_script_is_raised() -> None:
    with pytest.raises(Refused):
        await ScriptedModel([Refused("no")]).ask(make_request())


async def test_a_script_that_is_over_says_so() -> None:
    with pytest.raises(AssertionError, match="no line left"):
        await ScriptedModel([]).ask(make_request())
