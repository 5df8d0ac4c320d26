"""The schemas of all agents are in the strict subset of OpenAI, for notes of any length."""

from typing import Any

import pytest

from archqa.agents.agent import Agent, RunContext
from archqa.agents.answer import DecisionAgent, DecisionTask
from archqa.agents.labelling import Verdict
from archqa.agents.line_check import LineSupportAgent
from archqa.agents.model_backend import ModelBackend
from archqa.agents.registry import AGENT_NAMES, load_agents
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement, Relevance
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.errors import Unusable
from archqa.llm.structured import SentenceId, strict_schema
from archqa.tasks.fhir_agentbench.agents import JudgeAgent
from tests.fakes.server import FakeServer
from tests.llm import strict_rules
from tests.llm.asking import server_model
from tests.llm.strict_rules import copied, violations

AGENTS: list[type[Agent[Any, Any]]] = [
    *(agent for name in AGENT_NAMES for agent in load_agents(name)),
    JudgeAgent,
    LineSupportAgent,
]

LABELS = ("essential", "supplementary", "not-relevant")
MARKS = ("sentence", "answer", "line", "source", "section")


def choices_for(sentences: int, length: int = 0) -> dict[str, tuple[str, ...]]:
    """Ids for a note of so many sentences, padded to a length, and a few of everything else."""
    few = tuple(map(str, range(1, 13)))
    ids = tuple(str(number).rjust(length, "n") for number in range(1, sentences + 1))
    return dict.fromkeys(MARKS, few) | {"sentence": ids, "source": ids, "label": LABELS}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
@pytest.mark.parametrize("sentences", [1, 23, 400, 999, 1001, 20_000])
def test_a_schema_is_taken_for_notes_of_any_length(
    agent: type[Agent[Any, Any]], sentences: int
) -> None:
    schema = strict_schema(agent.output_type, choices_for(sentences))
    assert violations(agent.name, schema) == []


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_long_ids_are_listed_only_up_to_their_limit(
    agent: type[Agent[Any, Any]],
) -> None:
    """300 ids of 60 characters, such as `DocumentReference/…#12`, are 18,000 characters."""
    assert (
        violations(agent.name, strict_schema(agent.output_type, choices_for(300, 60)))
        == []
    )


@pytest.mark.parametrize(("sentences", "listed"), [(450, 900), (600, 600), (1200, 0)])
async def test_a_note_of_any_length_is_decided_and_invented_ids_are_sent_back(
    sentences: int, listed: int
) -> None:
    note = [
        Sentence(id=str(number), text="Fine.") for number in range(1, sentences + 1)
    ]
    judgement = Judgement(sentence_id="7", label=Relevance.ESSENTIAL)
    task = DecisionTask(
        case=Case(id="1", sentences=tuple(note)),
        judgements={"general expert": (judgement,)},
    )
    steps: list[Step] = []
    with FakeServer("invented-ids,first=1", keep_bodies=True) as server:
        async with server_model(server) as model:
            backend = ModelBackend(model, "fake", turns=2)
            context = RunContext({"decision": backend}, steps.append)
            if listed:
                decided = await DecisionAgent().run(task, context)
                assert set(decided.essential) <= {sentence.id for sentence in note}
            else:  # The fake model knows no ids but those that are listed.
                with pytest.raises(Unusable):
                    await DecisionAgent().run(task, context)
        schema = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert strict_rules.enum_values(schema) == listed
    assert "the note has only" in steps[0].rejected
    if listed:
        assert "9999" in steps[0].rejected


class Cited(FrozenModel):
    """Names sentences in three places."""

    first: SentenceId
    others: tuple[SentenceId, ...]
    last: SentenceId | None


def ids_listed(sentences: int, length: int = 0) -> int:
    return strict_rules.enum_values(
        strict_schema(Cited, choices_for(sentences, length))
    )


def test_a_short_notes_ids_stand_where_they_are_used() -> None:
    schema = strict_schema(Cited, choices_for(300))
    assert ids_listed(300) == 3 * 300
    assert "$defs" not in schema


def test_ids_that_would_be_too_many_are_listed_once() -> None:
    schema = strict_schema(Cited, choices_for(400))
    assert ids_listed(400) == 400
    [(name, listed)] = schema["$defs"].items()
    assert listed == {
        "type": "string",
        "enum": [str(number) for number in range(1, 401)],
    }
    assert schema["properties"]["first"] == {"$ref": f"#/$defs/{name}"}
    assert schema["properties"]["others"]["items"] == {"$ref": f"#/$defs/{name}"}


@pytest.mark.parametrize(("sentences", "length"), [(1001, 0), (300, 60)])
def test_above_the_limit_an_id_is_any_string_and_the_labels_stay(
    sentences: int, length: int
) -> None:
    """Ids that do not exist are then rejected by the agent's own check alone."""
    schema = strict_schema(Cited, choices_for(sentences, length))
    assert schema["properties"]["first"] == {"type": "string"}
    assert "$defs" not in schema
    labelled = strict_schema(Verdict, choices_for(sentences, length))
    assert labelled["properties"]["label"]["enum"] == list(LABELS)


def test_the_choices_of_a_schema_are_not_kept_for_the_next() -> None:
    assert ids_listed(1001) == 0
    assert ids_listed(400) == 400
    assert ids_listed(2) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"oneOf": []},
        {"patternProperties": {}},
        {"anyOf": []},
        {"additionalProperties": True},
        {"required": []},
        {"type": "array"},
        {"properties": {"rationale": {"enum": ["a"]}}, "required": ["rationale"]},
        {"properties": {"rationale": {"type": "array"}}, "required": ["rationale"]},
        {
            "properties": {"rationale": {"$ref": "#/$defs/None"}},
            "required": ["rationale"],
        },
        {"properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]},
        {
            "properties": {"a": {"type": "string", "enum": ["x"] * 1001}},
            "required": ["a"],
        },
        {
            "properties": {"a": {"type": "string", "enum": ["x" * 61] * 251}},
            "required": ["a"],
        },
        {
            "properties": {"x" * 120_001: {"type": "string"}},
            "required": ["x" * 120_001],
        },
    ],
)
def test_the_rules_refuse_what_the_documentation_does(change: dict[str, Any]) -> None:
    schema = copied(strict_schema(Verdict, choices_for(3)))
    assert violations("fine", schema) == []
    assert violations("fine", schema | change)


def test_the_rules_refuse_names_and_nesting() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(11):
        schema = {
            "type": "object",
            "properties": {"a": schema},
            "required": ["a"],
            "additionalProperties": False,
        }
    assert violations("fine", schema) == ["11 levels of nesting"]
    assert violations("not fine", schema["properties"]["a"]) == ["the name 'not fine'"]
