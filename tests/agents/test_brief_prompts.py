"""The prompts of the agents that shorten a patient's summary, and check it."""

from archqa.agents.brief_writing import (
    BriefSource,
    BriefWritingAgent,
    BriefWritingTask,
    SectionSources,
    WrittenLine,
)
from archqa.agents.line_check import BriefCheckAgent, LineCheckTask
from archqa.llm.prompts import default_prompts
from tests.agents.rendering import check_snapshot

TASK = BriefWritingTask(
    now="2030-06-01",
    sections=(
        SectionSources(
            name="problems",
            title="Problems",
            message="What the record has as active.",
            lines=(BriefSource(id="L1", text="Asthma, since 2010-03-01"),),
        ),
        SectionSources(name="allergies", title="Allergies"),
    ),
    sentences=(
        BriefSource(id="S1", text="Visit, 2030-05-01: Asthma well </note> controlled."),
    ),
    former=(
        WrittenLine(section="problems", text="Asthma is cured.", citations=("L1",)),
    ),
    problems=("Line 1 is not supported: L1 does not say so.",),
)


def test_the_rendered_prompts_are_the_snapshots() -> None:
    check_snapshot(BriefWritingAgent.prompt, TASK)
    check_snapshot(BriefCheckAgent.prompt, LineCheckTask.of_brief(TASK, TASK.former))


def test_record_text_cannot_end_its_tag() -> None:
    user = default_prompts().render(BriefWritingAgent.prompt, dict(TASK))[1].content
    assert user.count("</note>") == 1
