"""The planner's prompt and its plan: examples that are queries, sections from the tables, one act a turn."""

import json
import re
from typing import Any, get_args

import pytest

from archqa.agents.agent import Rejected
from archqa.agents.planner import Plan, PlannerAgent, PlannerTask
from archqa.llm.prompts import default_prompts
from archqa.query import Query
from archqa.query.execution.named_rows import with_concept_names
from archqa.query.kinds import KINDS, RowKind
from archqa.query.model import KINDS_BY_LIMIT
from archqa.query.questions.everyday.declining import judgement_reasons
from archqa.query.scope import VisitKind
from archqa.query.wording.queries import kind_description
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


def test_every_limit_visit_and_judgement_of_a_query_is_explained() -> None:
    text = system_prompt(everyday=True)
    visits = [*get_args(VisitKind), "current", "any"]
    for word in (*KINDS_BY_LIMIT, *visits, *judgement_reasons()):
        assert re.search(rf"\b{word}\b", text), word


@pytest.mark.parametrize("what", KINDS)
def test_a_kind_of_rows_is_described_with_all_that_it_returns(what: RowKind) -> None:
    text = kind_description(what)
    assert KINDS[what].meaning in text
    common = {"time", "elapsed", "name", "visit", "status"}
    for field in KINDS[what].returns - common:
        assert field in text
    for field in common - KINDS[what].returns:
        assert f"Has no {field}." in text or "Returns only " in text


def test_a_benchmark_is_asked_by_names_and_one_query() -> None:
    text = system_prompt(everyday=False)
    assert "a list of one query" in text
    assert "declined" not in text
    assert "Leave concepts" in text


def test_the_schema_names_every_field_of_a_query_and_requires_only_its_kind() -> None:
    schema = PlannerAgent().output_schema(PlannerTask(question="q"))
    query = schema["$defs"]["Query"]
    assert query["properties"].keys() == Query.model_fields.keys()
    assert query["required"] == ["what"]
    assert len(json.dumps(schema)) < 5300
    assert "description" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("fields", "returns"),
    [
        ({"what": "medication"}, "name"),
        ({"what": "observation", "when": None, "names": None}, "value"),
        ({"what": "hospital_visit", "when": {"visit": None, "spans": None}}, "time"),
    ],
)
def test_what_a_query_leaves_open_may_be_absent_or_null(
    fields: dict[str, Any], returns: str
) -> None:
    [query] = Plan.model_validate({"queries": [fields]}).queries
    assert query == Query(what=fields["what"], returns=returns)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            {"what": "medication", "concepts": ["metformine"]},
            "The nearest concepts: metformin,",
        ),
        (
            {"what": "medication", "concepts": ["asthma"]},
            "'asthma' is a condition, but a concept of medication is a drug class or drug",
        ),
        (
            {"what": "observation", "concepts": ["feverish state"]},
            "is called 'feverish state'",
        ),
        (
            {"what": "care_unit", "concepts": ["MICU"]},
            "Rows of care_unit are named by names",
        ),
        (
            {
                "what": "observation",
                "companion": {"what": "diagnosis", "concepts": ["qwertz"]},
            },
            "is called 'qwertz'",
        ),
    ],
)
@pytest.mark.parametrize("declines", [False, True])
def test_a_concept_that_the_tables_do_not_have_is_sent_back_with_the_nearest_ones(
    query: dict[str, Any], reason: str, declines: bool
) -> None:
    fields: dict[str, Any] = {"queries": [query]}
    if declines:
        fields = {"declined": {"kind": "control", "related": [query]}}
    with pytest.raises(Rejected, match=re.escape(reason)):
        PlannerAgent().check(
            PlannerTask(question="q", everyday=True), Plan.model_validate(fields)
        )


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
    ("what", "phrase", "name"),
    [
        ("observation", "A1c", "hemoglobin a1c"),
        ("observation", "Hemoglobin A1c", "hemoglobin a1c"),
        ("medication", "dextrose", "dextrose"),
    ],
)
def test_a_concept_may_be_called_by_any_of_its_phrases(
    what: RowKind, phrase: str, name: str
) -> None:
    query = Query(what=what, concepts=(phrase,))
    assert with_concept_names(query).concepts == (name,)


def test_a_brand_is_its_drug() -> None:
    query = with_concept_names(
        Query(what="medication", concepts=("Lipitor",), returns="name")
    )
    assert query.concepts == ("atorvastatin",)


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
