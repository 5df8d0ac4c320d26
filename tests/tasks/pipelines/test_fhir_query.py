"""A typed query between question and answer.

A model or the parser writes it, the executor answers, errors go back.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.agent import Backend, RunContext
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.question import RecordQuestion
from archqa.core.step import Step
from archqa.errors import CaseFailed, NotUnderstood, Unusable
from archqa.fhir import Store
from archqa.llm.scripted import ScriptedModel, ScriptedReply
from archqa.tasks.fhir_agentbench.settings import TypedQuerySettings
from archqa.tasks.fhir_agentbench.task import RecordResult
from archqa.tasks.pipeline import PipelineResult
from archqa.tasks.pipelines import default, find
from tests.fakes.replies import refusal_reply, tool_call_reply
from tests.fhir.invented import build_store, patient
from tests.query.clinic import clinic_record, order, result
from tests.query.invented import random_record

TASK = "fhir-agentbench"
RESOURCES = random_record(3)
DIABETES = sorted(
    resource["id"]
    for resource in RESOURCES
    if resource["resourceType"] == "Condition"
    and resource["subject"]["reference"] == "Patient/p"
    and resource["code"]["coding"][0].get("display") == "Diabetes"
)
VISITS = sorted(
    resource["id"]
    for resource in RESOURCES
    if resource["resourceType"] == "Encounter"
    and resource["subject"]["reference"] == "Patient/p"
    and resource["identifier"][0]["system"].endswith("encounter-hosp")
)
NOW = "Assume the current time is 2131-12-31 23:59:00."


@pytest.fixture
def record(tmp_path: Path) -> Store:
    return build_store(tmp_path / "record", RESOURCES)


def asking(question: str, patient: str = "p") -> RecordQuestion:
    return RecordQuestion(
        id="q1", question=question, patient_fhir_id=patient, assumption=NOW
    )


def plan(**query: Any) -> str:
    return json.dumps({"thought": "t", "look_up": [], "queries": [query]})


def looking_up(*words: str) -> str:
    return json.dumps({"thought": "t", "look_up": list(words), "queries": []})


class Played:
    """How a question played out with a scripted planner."""

    def __init__(
        self, record: Store, question: str, *script: ScriptedReply, **settings: Any
    ) -> None:
        self.model = ScriptedModel(script)
        self.steps: list[Step] = []
        self.failure: CaseFailed | None = None
        self.ending = PipelineResult()
        try:
            self.ending = carried_out(
                record,
                ModelBackend(self.model, "m"),
                asking(question),
                self.steps,
                **settings,
            )
        except CaseFailed as failure:
            self.failure = failure

    @property
    def result(self) -> dict[str, Any]:
        assert self.ending.result is not None
        return self.ending.result.to_json()

    def prompt(self, turn: int) -> str:
        return self.model.asked[turn].messages[-1].content


def carried_out(
    record: Store,
    backend: Backend,
    question: RecordQuestion,
    steps: list[Step] | None = None,
    **settings: Any,
) -> PipelineResult:
    recorded_steps = steps if steps is not None else []
    context = RunContext({"planner": backend}, recorded_steps.append, record)
    return asyncio.run(
        find("planner", TASK).run(question, context, TypedQuerySettings(**settings))
    )


def test_the_invented_patient_has_what_these_tests_ask_for() -> None:
    assert VISITS
    assert DIABETES


def test_a_models_query_is_carried_out_and_the_answer_rests_on_exact_resources(
    record: Store,
) -> None:
    played = Played(
        record,
        "How often was diabetes coded?",
        plan(what="diagnosis", names=["diabetes"], summary="count"),
    )
    assert played.result["agent_answer"] == str(len(DIABETES))
    assert sorted(played.result["agent_fhir_resources"]["Condition"]) == DIABETES
    assert (
        played.result["cited_fhir_resources"] == played.result["agent_fhir_resources"]
    )
    assert played.result["query"] == {
        "what": "diagnosis",
        "names": ["diabetes"],
        "summary": "count",
    }
    assert "diabetes" in played.result["sentence"]
    assert len(played.result["rows"]) == len(DIABETES)
    assert played.result["trace"][-1]["answer"] == str(len(DIABETES))


def test_the_planner_is_shown_the_card_and_held_to_the_querys_schema(
    record: Store,
) -> None:
    played = Played(
        record, "How many visits?", plan(what="hospital_visit", summary="count")
    )
    [request] = played.model.asked
    assert request.output_schema is not None
    assert set(request.output_schema["properties"]) == {
        *("thought", "look_up", "queries", "not_in_language", "declined"),
    }
    assert "hospital_visit: " in played.prompt(0)
    assert "diagnosis " in played.prompt(0)
    assert NOW in played.prompt(0)
    assert played.result["agent_answer"] == str(len(VISITS))


def test_words_are_looked_up_among_the_patients_rows_and_told_in_the_next_turn(
    record: Store,
) -> None:
    query = plan(what="diagnosis", names=["Diabetes"], summary="exists")
    played = Played(record, "Is she ill?", looking_up("diabetis", "unicorn"), query)
    assert 'diagnosis "Diabetes" (' in played.prompt(1)
    assert "unicorn:\n  nothing like it" in played.prompt(1)
    assert "<found>" not in played.prompt(0)
    assert played.result["agent_answer"] == "Yes"


def test_the_words_of_the_question_are_looked_up_before_the_first_turn(
    record: Store,
) -> None:
    query = plan(what="diagnosis", names=["Diabetes"], summary="exists")
    played = Played(record, "Is she diabetic, or a unicorn?", query)
    found = played.prompt(0).partition("<found>")[2]
    assert 'diagnosis "Diabetes" (' in found
    assert "unicorn" not in found, "what nothing is called after is not shown"


def sent_characters(played: Played, turn: int) -> int:
    request = played.model.asked[turn]
    messages = sum(len(message.content) for message in request.messages)
    return messages + len(json.dumps(request.output_schema))


@pytest.mark.parametrize("conventions", ["clinical", "mimic-ehrsql"])
def test_no_turn_of_the_planner_takes_more_than_five_thousand_tokens(
    tmp_path: Path, conventions: str
) -> None:
    """A token has about four characters. The record has many kinds, with many long names."""
    resources = clinic_record()
    for place in range(150):
        name = f"{place} glucose {'sodium ' * 30}"
        resources.append(order(f"m{place}", name))
        resources.append(result(f"o{place}", str(place), name, "2020-01-01", (1, "1")))
    record = build_store(tmp_path / "large", [patient("p"), *resources])
    words = [f"glucose {place}" for place in range(8)]
    wrong = {"what": "observation", "names": ["glucos"]}
    played = Played(
        record,
        "Which drugs, problems, procedures, allergies, vaccines, results and visits had she in 2020?",
        looking_up(*words),
        json.dumps({"queries": [wrong]}),
        json.dumps({"queries": [wrong]}),
        conventions=conventions,
    )
    assert len(played.model.asked) >= 2
    for turn in range(len(played.model.asked)):
        assert sent_characters(played, turn) / 4 <= 5000


def test_a_second_turn_does_not_repeat_the_names_on_the_card(record: Store) -> None:
    query = plan(what="diagnosis", names=["Diabetes"], summary="exists")
    played = Played(record, "What is she ill of?", looking_up("diabetis"), query)
    assert "names (" in played.prompt(0)
    assert "diabetis:" in played.prompt(1)
    assert len(played.prompt(1)) < len(played.prompt(0)) + 800


def test_an_invented_concept_is_sent_back_and_never_searched_as_a_name(
    record: Store,
) -> None:
    invented = plan(what="diagnosis", concepts=["sugarish state"], summary="exists")
    known = plan(what="diagnosis", concepts=["diabetes"], summary="exists")
    played = Played(record, "Is she diabetic?", invented, known, conventions="clinical")
    assert "is called 'sugarish state'" in played.model.asked[1].messages[-1].content
    assert played.result["agent_answer"] == "Yes"


def test_what_was_searched_by_name_alone_is_said_where_nothing_is_found(
    record: Store,
) -> None:
    query = plan(
        what="diagnosis", names=["unicorn"], concepts=["gout"], summary="exists"
    )
    played = Played(record, "Gout or unicorn?", query, query, conventions="clinical")
    assert played.result["agent_answer"] == "No"
    assert played.ending.result is not None
    assert (
        "“unicorn” was searched by name alone, not by codes."
        in played.ending.result.warnings  # type: ignore[attr-defined]
    )


def test_a_result_that_is_empty_for_its_time_alone_is_final(record: Store) -> None:
    query = plan(
        what="diagnosis",
        names=["Diabetes"],
        summary="exists",
        when={"spans": [{"year": 1990}]},
    )
    played = Played(record, "Was diabetes coded in 1990?", query)
    assert len(played.model.asked) == 1
    assert played.result["agent_answer"] == "No"


def test_a_result_that_is_empty_for_a_name_of_nothing_is_final(record: Store) -> None:
    query = plan(what="diagnosis", names=["unicorn"], summary="exists")
    played = Played(record, "Has she a unicorn?", query)
    assert len(played.model.asked) == 1
    assert played.result["agent_answer"] == "No"


def test_an_error_of_the_executor_goes_back_to_the_planner(record: Store) -> None:
    relative = {
        "what": "hospital_visit",
        "summary": "count",
        "when": {"spans": [{"years_back": 0}]},
    }
    played = Played(
        record,
        "How many visits this year?",
        plan(**relative),
        plan(**relative, now="2131-12-31T23:59:00"),
    )
    assert played.result["trace"][0]["error"] in played.prompt(1)
    assert "<tried>" in played.prompt(1)
    assert played.result["agent_answer"].isdigit()


def test_a_query_that_finds_nothing_is_told_similar_names_once_and_may_be_stood_by(
    record: Store,
) -> None:
    wrong, right = (
        plan(what="diagnosis", names=[name], summary="count")
        for name in ("diabetis", "diabetes")
    )
    played = Played(record, "How often was diabetes coded?", wrong, right)
    assert "Nothing was found: " in played.prompt(1)
    assert "0 diagnoses 'diabetis'" in played.prompt(1)
    assert '"Diabetes"' in played.prompt(1)
    assert played.result["agent_answer"] == str(len(DIABETES))
    insisting = Played(
        record,
        "How often was gout coded?",
        *[plan(what="diagnosis", names=["gout"], summary="count")] * 2,
    )
    assert insisting.result["agent_answer"] == "0"
    assert insisting.result["agent_fhir_resources"] == {}


def test_a_query_that_makes_no_sense_is_sent_back_before_it_is_carried_out(
    record: Store,
) -> None:
    senseless = plan(what="diagnosis", returns="dose")
    played = Played(
        record, "q?", senseless, plan(what="hospital_visit", summary="count")
    )
    assert "a diagnosis has no dose" in played.model.asked[1].messages[-1].content
    assert played.steps[0].rejected


def test_on_the_last_turn_nothing_can_be_looked_up_any_more(record: Store) -> None:
    script = [
        looking_up("a"),
        looking_up("b"),
        plan(what="hospital_visit", summary="count"),
    ]
    played = Played(record, "q?", *script, planner_turns=2)
    assert "This is the last turn" in played.prompt(1)
    assert "Nothing more can be looked up" in played.model.asked[2].messages[-1].content
    assert played.result["agent_answer"] == str(len(VISITS))


def test_where_the_planner_fails_the_parser_writes_the_query_and_says_so_unless_told_not_to(
    record: Store,
) -> None:
    nonsense = ["no json"] * 3
    played = Played(
        record, "Count the number of hospital visits of patient 1.", *nonsense
    )
    assert played.result["agent_answer"] == str(len(VISITS))
    assert played.ending.remarks == (
        "the parser writes the query: the planner failed (Unusable)",
    )
    alone = Played(
        record,
        "Count the number of hospital visits of patient 1.",
        *nonsense,
        fallback=False,
    )
    assert isinstance(alone.failure, Unusable)
    assert isinstance(
        Played(record, "Why is the sky blue?", *nonsense).failure, Unusable
    )


def test_a_model_that_declines_is_not_replaced(record: Store) -> None:
    played = Played(
        record,
        "Count the number of hospital visits of patient 1.",
        refusal_reply(),
        refusal_reply(),
    )
    assert played.failure is not None
    assert type(played.failure).__name__ == "Refused"


def test_the_parser_performs_the_same_agent_without_a_model(record: Store) -> None:
    steps: list[Step] = []
    question = asking("Count the number of hospital visits of patient 1.")
    ending = carried_out(record, GrammarBackend(record), question, steps)
    assert isinstance(ending.result, RecordResult)
    assert ending.result.answer == str(len(VISITS))
    assert sorted(ending.result.retrieved["Encounter"]) == VISITS
    assert [(step.agent, step.backend) for step in steps] == [("planner", "embedded")]


def test_what_the_parser_does_not_understand_is_a_refusal_that_names_the_part(
    record: Store,
) -> None:
    steps: list[Step] = []
    with pytest.raises(NotUnderstood) as caught:
        carried_out(
            record,
            GrammarBackend(record),
            asking("Why did the patient prefer tea to coffee?"),
            steps,
        )
    assert isinstance(caught.value.result, RecordResult)
    assert caught.value.result.answer is None
    assert steps[0].rejected == caught.value.full_text


def test_conventions_are_the_benchmarks_unless_told_otherwise(record: Store) -> None:
    """A visit that has ended is not the current one for the benchmark.

    A clinician takes the latest.
    """
    ended = [
        visit
        for visit in RESOURCES
        if visit["id"] in VISITS and "end" in visit["period"]
    ]
    current = plan(
        what="hospital_visit",
        summary="count",
        when={"visit": {"kind": "hospital", "which": "current"}},
    )
    answers = {
        conventions: Played(
            record, "q?", current, current, conventions=conventions
        ).result["agent_answer"]
        for conventions in (None, "mimic-ehrsql", "clinical")
    }
    assert answers[None] == answers["mimic-ehrsql"]
    if len(ended) == len(VISITS):
        assert answers == {None: "0", "mimic-ehrsql": "0", "clinical": "1"}


def test_several_queries_are_several_answers_where_they_are_allowed(
    record: Store,
) -> None:
    visits = {"what": "hospital_visit", "summary": "count"}
    diabetes = {"what": "diagnosis", "names": ["diabetes"], "summary": "count"}
    both = json.dumps({"queries": [visits, diabetes]})
    played = Played(record, "q?", both, most_queries=2, conventions="clinical")
    assert played.result["agent_answer"] == f"{len(VISITS)}; {len(DIABETES)}"
    assert played.result["query"] == visits
    assert played.result["further_queries"] == [diabetes]
    assert set(played.result["cited_fhir_resources"]) == {"Condition", "Encounter"}
    alone = Played(record, "q?", both, plan(**visits))
    assert "Give at most 1 in queries." in alone.model.asked[1].messages[-1].content
    assert "further_queries" not in alone.result


def test_a_judgement_is_a_refusal_with_its_related_queries(record: Store) -> None:
    related = {"what": "diagnosis", "returns": "name"}
    reply = json.dumps({"declined": {"kind": "risk", "related": [related]}})
    played = Played(record, "Count the hospital visits.", reply, conventions="clinical")
    assert type(played.failure).__name__ == "Refused"
    assert played.failure is not None
    assert isinstance(played.failure.result, RecordResult)
    assert played.failure.result.declined == "risk"
    assert played.failure.result.queries == (related,)
    assert "A risk is a clinical judgement" in played.failure.full_text


def test_what_no_query_expresses_is_handed_over_with_both_traces(record: Store) -> None:
    retrieve = tool_call_reply(
        (
            "get_resources_by_patient_fhir_id",
            {"resource_type": "Encounter", "patient_fhir_id": "p"},
        )
    )
    ending = f"The final answer is: 7 days\nResources: Encounter/{VISITS[0]}"
    model = ModelBackend(
        ScriptedModel(
            [json.dumps({"not_in_language": "Runs of days."}), retrieve, ending]
        ),
        "m",
    )
    context = RunContext(
        {"planner": model, "fhir_multi_turn_code": model}, fhir_record=record
    )
    run = find("planner", TASK).run(asking("q?"), context, TypedQuerySettings())
    outcome = asyncio.run(run)
    assert isinstance(outcome.result, RecordResult)
    assert outcome.result.answer == "7 days"
    assert outcome.result.cited == {"Encounter": (VISITS[0],)}
    assert outcome.result.trace[0] == {"not_in_language": "Runs of days."}
    assert len(outcome.result.trace) > 2
    assert outcome.remarks == (
        "no query expresses the question: an agent answered it with code",
    )


def test_the_benchmarks_conventions_count_what_is_later_and_clinical_ones_do_not(
    record: Store,
) -> None:
    """The gold of FHIR-AgentBench counts the whole record (semantics, section 3)."""
    query = plan(what="hospital_visit", summary="count")
    later = "Assume the current time is 1900-01-01 10:00:00."
    question = asking("How many visits?").model_copy(update={"assumption": later})
    counts = {}
    for conventions in ("mimic-ehrsql", "clinical"):
        backend = ModelBackend(ScriptedModel([query, query]), "m")
        ending = carried_out(record, backend, question, conventions=conventions)
        assert ending.result is not None
        counts[conventions] = ending.result.to_json()["agent_answer"]
    assert counts == {"mimic-ehrsql": str(len(VISITS)), "clinical": "0"}


def test_without_an_agent_that_works_with_code_the_reason_is_kept(
    record: Store,
) -> None:
    played = Played(record, "q?", json.dumps({"not_in_language": "Runs of days."}))
    assert isinstance(played.failure, Unusable)
    assert "Runs of days." in played.failure.full_text
    assert "Runs of days." not in str(played.failure)


def test_without_a_pipelines_name_a_model_plans_and_else_the_parser_does() -> None:
    assert default(TASK, model=True).name == "planner"
    assert default(TASK, model=False).name == "embedded"
