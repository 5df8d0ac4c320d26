"""Models that say what they are told to."""

import pytest

from archqa.errors import Refused
from archqa.llm.base import Finish
from archqa.llm.scripted import ScriptedModel, cut_off, refusal
from tests.llm.asking import question


async def test_lines_are_said_in_order_and_questions_remembered() -> None:
    model = ScriptedModel(["one", refusal("no"), cut_off("tw")])
    replies = [await model.ask(question(str(number))) for number in range(3)]
    assert [(reply.text, reply.finish) for reply in replies] == [
        ("one", Finish.COMPLETE),
        ("no", Finish.REFUSED),
        ("tw", Finish.LENGTH),
    ]
    assert [request.messages[-1].content for request in model.asked] == ["0", "1", "2"]


async def test_a_script_may_be_a_function_of_the_question() -> None:
    model = ScriptedModel(lambda request: request.messages[-1].content.upper())
    assert (await model.ask(question("abc"))).text == "ABC"


async def test_an_exception_in_the_script_is_raised() -> None:
    with pytest.raises(Refused):
        await ScriptedModel([Refused("no")]).ask(question())


async def test_a_script_that_is_over_says_so() -> None:
    with pytest.raises(AssertionError, match="no line left"):
        await ScriptedModel([]).ask(question())
