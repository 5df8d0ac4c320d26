"""The five agents of FHIR-AgentBench over a small ward.

Their turns, tools and limits, and what they hand in.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.agent import RunContext
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.question import RecordQuestion
from archqa.core.step import Step
from archqa.errors import CaseFailed, ContextTooLong, Refused, Truncated, Unusable
from archqa.fhir import Store
from archqa.llm.model import FinishReason, Reply, Request
from archqa.llm.scripted import ScriptedModel, ScriptedReply
from archqa.tasks.fhir_agentbench.published_agents import (
    NO_FINAL_ANSWER,
)
from archqa.tasks.pipelines import find
from tests.fakes.replies import refusal_reply, tool_call_reply, truncated_reply
from tests.fhir.invented import build_store, ward_resources
from tests.runs.fhir_questions import PUBLISHED_PIPELINES

QUESTION = RecordQuestion(
    id="q1",
    question="How many glucose tests did patient 1 have?",
    patient_fhir_id="p1",
    assumption="Assume the current time is 2130-12-31 23:59:00.",
)
RETRIEVE = "get_resources_by_patient_fhir_id"
BY_ID = "get_resources_by_resource_id"
CODE = "execute_python_code"
FINAL = "I counted them. The final answer is: 2"


@pytest.fixture
def ward(tmp_path: Path) -> Store:
    return build_store(tmp_path / "ward", ward_resources(), "gcp")


class Played:
    """How a pipeline played out: what the model was asked, what was handed in, or why not."""

    def __init__(
        self, ward: Store, pipeline: str, *script: ScriptedReply, **settings: Any
    ) -> None:
        chosen = find(pipeline, "fhir-agentbench")
        self.model = ScriptedModel(script)
        self.steps: list[Step] = []
        self.failure: CaseFailed | None = None
        backend = ModelBackend(self.model, "scripted")
        context = RunContext(
            dict.fromkeys(chosen.agents, backend), self.steps.append, ward
        )
        try:
            ending = asyncio.run(
                chosen.run(QUESTION, context, chosen.settings_type(**settings))
            )
            assert ending.result is not None
            self.result = ending.result.to_json()
        except CaseFailed as failure:
            self.failure = failure
            self.result = failure.result.to_json() if failure.result else {}

    @property
    def requests(self) -> list[Request]:
        return self.model.asked

    @property
    def tools(self) -> list[list[str]]:
        """The tools offered in each turn."""
        return [[tool.name for tool in request.tools] for request in self.requests]

    @property
    def tool_results(self) -> list[str]:
        """What tools told the model, in order."""
        return [
            message.content
            for message in self.requests[-1].messages
            if message.role == "tool"
        ]


def of_type(*kinds: str) -> Any:
    return tool_call_reply(
        *(
            (RETRIEVE, {"resource_type": kind, "patient_fhir_id": "p1"})
            for kind in kinds
        )
    )


def test_the_published_agents_search_as_googles_server_does() -> None:
    assert all(
        find(name, "fhir-agentbench").fhir_profile == "gcp"
        for name in PUBLISHED_PIPELINES
    )


@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
def test_every_agent_is_told_question_patient_and_assumption_and_nothing_else_of_the_question(
    ward: Store, pipeline: str
) -> None:
    played = Played(ward, pipeline, refusal_reply())
    system, user = played.requests[0].messages
    assert user.content == (
        "Question: How many glucose tests did patient 1 have?\n"
        "Context: Patient FHIR ID is p1. Assume the current time is 2130-12-31 23:59:00."
    )
    assert "glucose" not in system.content
    assert played.requests[0].output_schema is None


def test_single_turn_request_searches_once_and_then_answers_without_tools(
    ward: Store,
) -> None:
    searches = (
        ("fhir_request_get", {"query_string": "Observation?patient=p1&code=GLU"}),
        (
            "fhir_request_get",
            {"query_string": "Encounter?patient=p1"},
        ),
    )
    played = Played(ward, "single-turn-request", tool_call_reply(*searches), FINAL)
    assert played.tools == [["fhir_request_get"], []]
    assert played.result["agent_answer"] == FINAL
    retrieved = played.result["agent_fhir_resources"]
    assert {kind: sorted(ids) for kind, ids in retrieved.items()} == {
        "Observation": ["o1", "o2"],
        "Encounter": ["h1", "h2", "i1"],
    }
    assert "'valueQuantity': {'value': 5.4" in played.tool_results[0]


def test_single_turn_retriever_reads_raw_resources(ward: Store) -> None:
    played = Played(ward, "single-turn-retriever", of_type("Observation"), FINAL)
    assert played.tools == [[RETRIEVE], []]
    assert "'resourceType': 'Observation'" in played.tool_results[0]
    assert sorted(played.result["agent_fhir_resources"]["Observation"]) == [
        "o1",
        "o2",
        "o3",
        "o5",
        "o6",
    ]


def test_single_turn_retriever_code_sees_pointers_and_the_result_of_its_first_code(
    ward: Store,
) -> None:
    code = 'answer = len([o for o in retrieved_resources["Observation"] if has_code(o, "glucose")])'
    both_calls = tool_call_reply(
        (CODE, {"code": code}), (CODE, {"code": "answer = 'never run'"})
    )
    played = Played(
        ward,
        "single-turn-retriever-code",
        of_type("Observation", "Encounter"),
        both_calls,
        FINAL,
    )
    assert played.tools == [[RETRIEVE], [CODE], []]
    assert played.tool_results == [
        "retrieved_fhir_resources['Observation'] (5 items)",
        "retrieved_fhir_resources['Encounter'] (3 items)",
        "{'answer': 2}",
    ]
    assert [
        len(message.tool_calls)
        for message in played.requests[-1].messages
        if message.tool_calls
    ] == [2, 1]


def test_multi_turn_retriever_follows_references_until_it_says_the_phrase(
    ward: Store,
) -> None:
    script = [
        of_type("MedicationRequest"),
        tool_call_reply((BY_ID, {"resource_type": "Medication", "resource_id": "m4"})),
        "I am still thinking.",
        "So it was heparin.\nTHE FINAL ANSWER IS: heparin",
    ]
    played = Played(ward, "multi-turn-retriever", *script)
    assert played.tools == [[RETRIEVE, BY_ID]] * 4
    assert played.result["agent_answer"] == script[-1]
    assert set(played.result["agent_fhir_resources"]) == {
        "MedicationRequest",
        "Medication",
    }


def test_multi_turn_code_mends_code_that_failed(ward: Store) -> None:
    script = [
        of_type("Observation"),
        tool_call_reply(
            (CODE, {"code": "answer = retrieved_resources['Observations']"})
        ),
        tool_call_reply(
            (
                CODE,
                {
                    "code": "print('look')\nanswer = len(retrieved_resources['Observation'])"
                },
            )
        ),
        FINAL,
    ]
    played = Played(ward, "multi-turn-retriever-code", *script)
    assert played.tools[0] == [RETRIEVE, BY_ID, CODE]
    assert played.tool_results[0] == "retrieved_fhir_resources['Observation'] (5 items)"
    assert "KeyError" in played.tool_results[1]
    assert played.tool_results[2] == "{'answer': 5, 'stdout': 'look\\n'}"
    assert played.result["faults"] == {"code": 1}


def test_calls_in_one_message_run_in_order_and_see_what_the_earlier_ones_did(
    ward: Store,
) -> None:
    count = "answer = {name: len(found) for name, found in retrieved_resources.items()}"
    calls = tool_call_reply(
        (CODE, {"code": count}),
        (RETRIEVE, {"resource_type": "Observation", "patient_fhir_id": "p1"}),
        (CODE, {"code": count}),
        (RETRIEVE, {"resource_type": "Encounter", "patient_fhir_id": "p1"}),
        (CODE, {"code": count}),
    )
    played = Played(ward, "multi-turn-retriever-code", calls, FINAL)
    assert played.tool_results[::2] == [
        "{'answer': {}}",
        "{'answer': {'Observation': 5}}",
        "{'answer': {'Observation': 5, 'Encounter': 3}}",
    ]


def test_code_that_the_sandbox_cannot_parse_is_counted_by_its_kind(ward: Store) -> None:
    generator = "def each():\n    yield 1\nanswer = list(each())"
    played = Played(
        ward,
        "multi-turn-retriever-code",
        tool_call_reply((CODE, {"code": generator})),
        FINAL,
    )
    assert "does not know yield expressions" in played.tool_results[0]
    assert played.result["faults"] == {"unsupported": 1}


def test_a_second_search_for_a_type_replaces_the_first_officially_and_adds_to_it_otherwise(
    ward: Store,
) -> None:
    searches = [
        tool_call_reply(("fhir_request_get", {"query_string": "Observation?patient=p1&code=GLU"}),
                ("fhir_request_get", {"query_string": "Observation?patient=p1&code=HR"})),
        FINAL,
    ]  # fmt: skip
    official = Played(ward, "single-turn-request", *searches)
    assert official.result["agent_fhir_resources"] == {"Observation": ["o3"]}
    ours = Played(ward, "single-turn-request", *searches, official=False)
    assert sorted(ours.result["agent_fhir_resources"]["Observation"]) == [
        "o1",
        "o2",
        "o3",
    ]


def test_iterations_end_with_the_benchmarks_words(ward: Store) -> None:
    played = Played(ward, "multi-turn-retriever", *["Let me think."] * 30)
    assert len(played.requests) == 30
    assert played.result["agent_answer"] == NO_FINAL_ANSWER
    assert (
        len(Played(ward, "multi-turn-retriever", *["Hm."] * 3, iterations=3).requests)
        == 3
    )


def test_a_prompt_over_the_limit_is_an_error_that_says_how_it_was_counted(
    ward: Store,
) -> None:
    calls = [
        tool_call_reply(
            *[(RETRIEVE, {"resource_type": "Observation", "patient_fhir_id": "p1"})]
            * 100
        ),
        FINAL,
    ]
    played = Played(ward, "single-turn-retriever", *calls)
    assert isinstance(played.failure, ContextTooLong)
    message = str(played.failure)
    counted = int(message.split(": ")[1].split(" >")[0])
    assert (
        message
        == f"Input tokens exceeded: {counted} > 32000 (estimated: characters / 4)"
    )
    assert len(played.requests) == 1
    shown = sum(
        len(str(resource))
        for resource in ward.as_profile("archqa")
        .search("Observation?patient=p1")
        .resources
    )
    assert counted == pytest.approx(100 * shown / 4, rel=0.1)
    assert "Observation" in played.result["agent_fhir_resources"]


@pytest.mark.parametrize(
    "pipeline",
    ["single-turn-request", "single-turn-retriever", "single-turn-retriever-code"],
)
def test_a_single_turn_without_the_one_tool_is_an_error_in_the_benchmarks_words(
    ward: Store, pipeline: str
) -> None:
    name = find(pipeline, "fhir-agentbench")
    silent = Played(ward, pipeline, "I know it: 2.")
    assert isinstance(silent.failure, Unusable)
    assert str(silent.failure) == "No tool calls found in the response"
    wrong = Played(ward, pipeline, tool_call_reply(("look_around", {})))
    expected = "fhir_request_get" if name.name == "single-turn-request" else RETRIEVE
    assert (
        str(wrong.failure) == f"Expected '{expected}' tool call, but got 'look_around'"
    )


def test_tools_that_are_not_there_and_arguments_that_will_not_do_are_told_in_words(
    ward: Store,
) -> None:
    script = [
        tool_call_reply(("look_around", {})),
        tool_call_reply((RETRIEVE, {"resource_type": "Observation"})),
        FINAL,
    ]
    played = Played(ward, "multi-turn-retriever", *script)
    assert (
        played.tool_results[0]
        == f"{{'error': 'There is no tool of that name. There are: {RETRIEVE}, {BY_ID}.'}}"
    )
    assert "patient_fhir_id: Field required" in played.tool_results[1]
    assert played.result["faults"] == {"tool": 1, "arguments": 1}


def test_an_empty_reply_is_asked_for_again_and_five_are_too_many(ward: Store) -> None:
    empty = Reply(text="", finish=FinishReason.EMPTY)
    played = Played(ward, "multi-turn-retriever", empty, FINAL)
    assert played.result["agent_answer"] == FINAL
    assert "empty" in played.requests[1].messages[-1].content
    assert isinstance(
        Played(ward, "multi-turn-retriever", *[empty] * 5).failure, Unusable
    )


def test_refusals_and_cut_off_replies_end_the_question(ward: Store) -> None:
    assert isinstance(
        Played(ward, "multi-turn-retriever", refusal_reply()).failure, Refused
    )
    cut = Played(
        ward,
        "single-turn-retriever",
        of_type("Observation"),
        truncated_reply("The final"),
    )
    assert isinstance(cut.failure, Truncated)
    assert cut.result["agent_fhir_resources"]["Observation"]


def test_what_is_cited_by_id_in_the_answer_is_told_apart(ward: Store) -> None:
    answer = "Both Observation/o1 and Observation/o2, not o3. The final answer is: 2"
    played = Played(ward, "single-turn-retriever", of_type("Observation"), answer)
    assert {
        kind: sorted(ids) for kind, ids in played.result["cited_fhir_resources"].items()
    } == {"Observation": ["o1", "o2"]}


def test_the_submissions_trace_holds_no_data_of_the_record_and_the_runs_own_holds_each_message_once(
    ward: Store,
) -> None:
    played = Played(
        ward,
        "multi-turn-retriever",
        of_type("Observation"),
        of_type("Encounter"),
        FINAL,
    )
    assert "valueQuantity" not in json.dumps(played.result["trace"])
    assert "retrieved_fhir_resources['Observation'] (5 items)" in json.dumps(
        played.result["trace"]
    )
    messages = [message for step in played.steps for message in step.messages]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert [len(step.tool_calls) for step in played.steps] == [1, 1, 0]


def test_without_the_quirks_data_are_made_small_and_pointers_show_a_sample(
    ward: Store,
) -> None:
    raw, small = (
        Played(
            ward,
            "single-turn-retriever",
            of_type("Observation"),
            FINAL,
            official=official,
        ).tool_results[0]
        for official in (True, False)
    )
    assert len(small) < len(raw) * 0.8
    code = tool_call_reply((CODE, {"code": "answer = 2"}))
    pointers = Played(
        ward,
        "single-turn-retriever-code",
        of_type("Observation"),
        code,
        FINAL,
        official=False,
    ).tool_results[0]
    assert "one of them, shortened" in pointers


@pytest.mark.parametrize("pipeline", PUBLISHED_PIPELINES)
def test_a_conversation_needs_a_model(pipeline: str, ward: Store) -> None:
    chosen = find(pipeline, "fhir-agentbench")
    context = RunContext(
        dict.fromkeys(chosen.agents, GrammarBackend(ward)), fhir_record=ward
    )
    with pytest.raises(Unusable, match=f"{chosen.agents[0]} converses with a model"):
        asyncio.run(chosen.run(QUESTION, context, chosen.settings_type()))
