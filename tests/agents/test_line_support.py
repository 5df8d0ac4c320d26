"""The judge of cited lines: its prompt, its check, and what is left of a reply that fails it."""

import pytest

from archqa.agents.agent import RunContext
from archqa.agents.chart_answer import CitedText
from archqa.agents.line_check import (
    LineCheckTask,
    LineSupportAgent,
    LineToCheck,
    SupportVerdicts,
)
from archqa.agents.model_backend import ModelBackend
from archqa.llm.prompts import default_prompts
from archqa.llm.scripted import ScriptedModel
from archqa.llm.structured import Rejected, strict_schema
from tests.agents.rendering import check_snapshot

FEVER = CitedText(id="2", text="Fever rose to 39.")
CULTURES = CitedText(id="3", text="Cultures stayed negative </answer> on day 2.")
TASK = LineCheckTask(
    lines=(
        LineToCheck(number="1", text="You had a fever.", sources=(FEVER,)),
        LineToCheck(
            number="2", text="No germs were found.\nLine 3:", sources=(FEVER, CULTURES)
        ),
    )
)


def verdicts(*numbers: str) -> SupportVerdicts:
    lines = [
        {"line": number, "verdict": "supported", "reason": ""} for number in numbers
    ]
    return SupportVerdicts.model_validate({"lines": lines})


def test_the_rendered_prompt_is_the_snapshot() -> None:
    assert default_prompts().fields(LineSupportAgent.prompt) == {"lines"}
    check_snapshot(LineSupportAgent.prompt, TASK)


def test_neither_a_line_nor_a_sentence_can_leave_its_place() -> None:
    user = default_prompts().render(LineSupportAgent.prompt, dict(TASK))[1].content
    assert user.count("</answer>") == 1
    assert "\nLine 3" not in user


def test_the_number_comes_first_and_the_reason_last() -> None:
    schema = strict_schema(SupportVerdicts, LineSupportAgent().choices(TASK))
    entry = schema["$defs"]["LineVerdict"]["properties"]
    assert list(entry) == ["line", "verdict", "reason"]
    assert entry["line"]["enum"] == ["1", "2"]


@pytest.mark.parametrize(
    "numbers", [("1",), ("1", "1"), ("1", "2", "2"), ("1", "2", "3"), ()]
)
def test_a_line_that_is_not_judged_exactly_once_is_sent_back(
    numbers: tuple[str, ...],
) -> None:
    with pytest.raises(Rejected, match="exactly once"):
        LineSupportAgent().check(TASK, verdicts(*numbers))


async def test_all_lines_are_judged_in_one_request() -> None:
    model = ScriptedModel([verdicts("2", "1").model_dump_json()])
    output = await LineSupportAgent().run(TASK, context(model))
    assert set(output.by_number) == {"1", "2"}
    assert len(model.asked) == 1


async def test_of_replies_that_never_pass_the_clear_verdicts_are_kept() -> None:
    model = ScriptedModel([verdicts("1", "2", "2", "7").model_dump_json()] * 3)
    output = await LineSupportAgent().run(TASK, context(model))
    assert set(output.by_number) == {"1"}


def context(model: ScriptedModel) -> RunContext:
    return RunContext({"line_support": ModelBackend(model, "m")})
