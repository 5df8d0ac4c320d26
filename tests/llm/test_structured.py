"""Strict schemas of output types, and parsing of replies into these types."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.agents.answer import DecisionOutput, Lines
from archqa.agents.context import MedicalContext
from archqa.agents.labelling import Verdict, Verdicts
from archqa.agents.recruiting import RecruitedExperts
from archqa.core.judgement import Relevance
from archqa.core.value import FrozenModel
from archqa.llm.structured import Rejected, parse_output, strict_schema

OUTPUTS = [MedicalContext, Verdict, Verdicts, RecruitedExperts, DecisionOutput, Lines]
CHOICES = {"sentence": ("1", "2", "7b"), "label": ("essential", "not-relevant")}
GOOD = '{"rationale": "It says {why}.", "label": "essential"}'


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema."""
    if isinstance(schema, list):
        for child in schema:
            yield from objects(child)
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for child in schema.values():
            yield from objects(child)


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_property_is_required_and_no_other_allowed(
    output: type[FrozenModel],
) -> None:
    nodes = list(objects(strict_schema(output, CHOICES)))
    assert nodes
    for node in nodes:
        assert node["required"] == list(node["properties"])
        assert node["additionalProperties"] is False


@pytest.mark.parametrize("output", OUTPUTS)
def test_only_keywords_of_the_strict_subset_are_used(output: type[FrozenModel]) -> None:
    schema = json.dumps(strict_schema(output, CHOICES))
    for keyword in ('"choices":', '"hidden":', '"default":', '"title":'):
        assert keyword not in schema


def test_hidden_fields_are_not_asked_for() -> None:
    assert set(strict_schema(Verdict, CHOICES)["properties"]) == {"rationale", "label"}
    assert "probability" not in json.dumps(strict_schema(Verdicts, CHOICES))


def test_the_schema_enumerates_the_ids_and_labels_of_the_task() -> None:
    schema = strict_schema(Verdicts, CHOICES)
    verdict = schema["$defs"]["SentenceVerdict"]["properties"]
    assert verdict["sentence_id"] == {"type": "string", "enum": ["1", "2", "7b"]}
    assert verdict["label"] == {"type": "string", "enum": ["essential", "not-relevant"]}
    decided = strict_schema(DecisionOutput, CHOICES)["properties"]
    assert decided["essential"]["items"]["enum"] == ["1", "2", "7b"]


def test_without_choices_an_id_is_any_string() -> None:
    assert strict_schema(DecisionOutput)["properties"]["essential"]["items"] == {
        "type": "string"
    }


def test_the_rationale_comes_before_the_label() -> None:
    assert list(strict_schema(Verdict, CHOICES)["properties"]) == ["rationale", "label"]


def test_properties_may_be_named_like_schema_keywords() -> None:
    class Work(FrozenModel):
        title: str
        default: str
        choices: str

    assert strict_schema(Work)["required"] == ["title", "default", "choices"]


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"\n\n  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Here it is:\n```json\n{GOOD}\n```\nI hope this helps!",
        f"{GOOD}\n\nI hope this {{helps}}!",
        f"Sure! {GOOD}",
        f"1. The {{first}} try: {GOOD}",
        f"[7] says: {GOOD}",
        f'"Essential", I think. {GOOD}',
        f"<think>Is it {{essential}}? {{}}</think>\n{GOOD}",
        f'Maybe {{"rationale": "no"}} … no.</think>{GOOD}',
        GOOD.replace("{why}", "<think>so</think>"),
        GOOD.replace("It says {why}.", "```json is a fence```"),
        f"null\n{GOOD}",
    ],
)
def test_an_object_is_parsed_out_of_fences_thoughts_and_prose(reply: str) -> None:
    assert parse_output(reply, Verdict).label == "essential"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no",
        "null",
        "[]",
        "3",
        '"text"',
        GOOD[:-3],
        "{" * 100_000,
        '{"a":' * 100_000,
        f'{{"rationale": {"9" * 5000}}}',
        "```json\n```",
        "<think>",
    ],
)
def test_a_reply_without_an_object_is_rejected_with_a_message_for_the_model(
    reply: str,
) -> None:
    with pytest.raises(Rejected, match="Your reply holds no complete JSON object"):
        parse_output(reply, Verdict)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ('{"rationale": "x"}', "label: Field required"),
        ('{"rationale": "x", "label": "maybe"}', "label: Input should be 'essential'"),
        (
            '{"rationale": "x", "label": "essential", "mood": "good"}',
            "mood: Extra inputs are not permitted",
        ),
        (
            '{"rationale": null, "label": "essential"}',
            "rationale: Input should be a valid string",
        ),
    ],
)
def test_a_rejection_names_the_fields_that_do_not_fit(reply: str, words: str) -> None:
    with pytest.raises(
        Rejected, match=r"Your JSON does not fit the schema\."
    ) as raised:
        parse_output(reply, Verdict)
    assert words in str(raised.value)


def test_a_rejection_is_short_even_for_a_long_reply() -> None:
    reply = json.dumps({"verdicts": [{"rationale": 5} for _ in range(500)]})
    with pytest.raises(Rejected) as raised:
        parse_output(reply, Verdicts)
    assert len(str(raised.value)) < 1000


@given(st.text() | st.text(alphabet='{}[]":,`tn0 <think>/'))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        parse_output(text, Verdict)
    except Rejected:
        return


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="{")), st.text())
def test_an_output_is_parsed_back_from_surrounding_text(
    rationale: str, before: str, after: str
) -> None:
    verdict = Verdict(rationale=rationale, label=Relevance.ESSENTIAL)
    if "</think>" not in after and "```" not in before + after + rationale:
        assert (
            parse_output(f"{before}{verdict.model_dump_json()}{after}", Verdict)
            == verdict
        )
