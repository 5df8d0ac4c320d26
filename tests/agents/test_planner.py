"""The planner's prompt and its plan: examples that are queries, sections from the tables, one act a turn."""

import json
import re
from typing import Any

import pytest

from archqa.agents.agent import Rejected
from archqa.agents.planner import Plan, PlannerAgent, PlannerTask
from archqa.llm.prompts import default_prompts
from archqa.query import Query
from archqa.query.execution.named_rows import with_concept_names
from archqa.query.kinds import KINDS
from archqa.query.model import KINDS_BY_LIMIT
from archqa.query.questions.everyday.declining import judgement_reasons
from archqa.query.wording.queries import concept_names, kind_descriptions
from archqa.terminology.concepts import load_concepts

COUNT = {"what": "diagnosis", "summary": "count"}
CONCEPTS = {concept.name for concept in load_concepts()}


def system_prompt(*, everyday: bool) -> str:
    task = PlannerTask(
        question="q", everyday=everyday, most_queries=3 if everyday else 1
    )
    system, _ = default_prompts().render(PlannerAgent.prompt, dict(task))
    return system.content


def examples(*, everyday: bool) -> list[dict[str, Any]]:
    """The JSON objects at the beginning of a line."""
    text = system_prompt(everyday=everyday)
    starts = [match.start() for match in re.finditer(r"^\{", text, re.MULTILINE)]
    return [json.JSONDecoder().raw_decode(text[start:])[0] for start in starts]


@pytest.mark.parametrize("everyday", [True, False])
def test_every_example_of_the_prompt_is_a_plan(everyday: bool) -> None:
    task = PlannerTask(
        question="q", everyday=everyday, most_queries=3 if everyday else 1
    )
    found = examples(everyday=everyday)
    assert len(found) >= 4
    for example in found:
        PlannerAgent().check(task, Plan.model_validate(example))


def test_every_concept_of_the_examples_is_one_of_the_tables() -> None:
    used = set(
        re.findall(
            r'"(?:concepts|reasons)": \["([^"]+)"\]', system_prompt(everyday=True)
        )
    )
    assert len(used) >= 5
    assert used <= CONCEPTS


def test_kinds_limits_and_concepts_are_rendered_from_their_tables() -> None:
    text = system_prompt(everyday=True)
    for kind in KINDS.values():
        assert kind.meaning
        assert f"- {kind.what}: {kind.meaning} Returns " in text
    for limit in KINDS_BY_LIMIT:
        assert limit in text
    for name in CONCEPTS - {
        concept.name for concept in load_concepts() if concept.kind == "drug"
    }:
        assert name in text
    assert len(kind_descriptions()) == len(KINDS)


def test_a_benchmark_is_asked_by_names_and_one_query() -> None:
    text = system_prompt(everyday=False)
    assert "a list of one query" in text
    assert "declined" not in text
    assert concept_names()[0] not in text


def test_a_plan_does_one_thing() -> None:
    agent, task = (
        PlannerAgent(),
        PlannerTask(question="q", everyday=True, most_queries=2),
    )
    for fields in (
        {},
        {"look_up": ["a"], "queries": [COUNT]},
        {"queries": [COUNT], "not_in_language": "It is arithmetic."},
        {"queries": [COUNT] * 3},
        {"declined": {"kind": "mood"}},
    ):
        with pytest.raises(Rejected):
            agent.check(task, Plan.model_validate(fields))
    for kind in judgement_reasons():
        agent.check(task, Plan.model_validate({"declined": {"kind": kind}}))


def test_a_benchmark_question_is_not_declined() -> None:
    plan = Plan.model_validate({"declined": {"kind": "safety"}})
    with pytest.raises(Rejected):
        PlannerAgent().check(PlannerTask(question="q"), plan)


def test_null_is_an_absent_field() -> None:
    plan = Plan.model_validate(
        {"look_up": ["a"], "queries": None, "not_in_language": None}
    )
    assert (plan.look_up, plan.queries) == (("a",), ())


def test_a_limit_of_the_query_language_is_no_judgement() -> None:
    assert "category" not in judgement_reasons()
    assert "safety" in judgement_reasons()


@pytest.mark.parametrize(
    ("phrase", "name"),
    [
        ("A1c", "hemoglobin a1c"),
        ("Hemoglobin A1c", "hemoglobin a1c"),
        ("dextrose", "dextrose"),
    ],
)
def test_a_concept_may_be_called_by_any_of_its_phrases(phrase: str, name: str) -> None:
    query = Query(what="observation", concepts=(phrase,))
    assert with_concept_names(query).concepts == (name,)


def test_a_phrase_for_no_concept_is_a_name_of_rows() -> None:
    query = with_concept_names(
        Query(what="medication", concepts=("Lipitor", "Unicornol"), returns="name")
    )
    assert (query.concepts, query.names) == (("atorvastatin",), ("Unicornol",))


def test_concepts_of_the_other_side_and_of_companions_are_named_too() -> None:
    query = Query.model_validate(
        {
            "what": "observation",
            "concepts": ["A1c"],
            "against": {"relation": "greater", "concepts": ["BP"]},
            "companion": {"what": "diagnosis", "concepts": ["diabetic"]},
        }
    )
    named = with_concept_names(query)
    assert named.against is not None
    assert named.against.concepts == ("blood pressure",)
    assert named.companion is not None
    assert named.companion.concepts == ("diabetes mellitus",)
