"""Why a question of FHIR-AgentBench went wrong: each class of the paper's error analysis, from the record alone."""

import json
from typing import Any

import pytest

from archqa.tasks.fhir_agentbench.scoring.error_analysis import (
    Verdict,
    error_table,
    error_tags,
)
from scoring.tasks.fhir_agentbench import Question

WRONG = Verdict(right=False, all_retrieved=False)
DRUGS = {"Medication": ["m1"], "MedicationRequest": ["r1"]}


def question(**resources: list[str]) -> Question:
    return Question("q1", "How many?", "[[2]]", resources)


def row(
    answer: str | None = "3", error: str = "", trace: Any = (), **resources: list[str]
) -> dict[str, Any]:
    return {
        "question_id": "q1",
        "agent_answer": answer,
        "error": error,
        "trace": list(trace),
        "agent_fhir_resources": resources,
    }


def used(name: str, result: str, **arguments: str) -> list[dict[str, Any]]:
    """The two turns of one tool call."""
    call = {"id": "c1", "name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": result, "tool_call_id": "c1"},
    ]


def test_a_question_that_went_well_has_no_tag() -> None:
    assert (
        error_tags(
            question(Observation=["o1"]), row(Observation=["o1"]), Verdict(True, True)
        )
        == []
    )


def test_a_question_that_was_never_answered_says_so() -> None:
    assert error_tags(question(Observation=["o1"]), None, WRONG) == ["not answered"]


@pytest.mark.parametrize(
    ("error", "tag"),
    [
        ("NotUnderstood: I do not understand 'tea'.", "not understood"),
        (
            "ContextTooLong: Input tokens exceeded: 40000 > 32000 (estimated: characters / 4)",
            "context overflow",
        ),
        ("Unusable: No tool calls found in the response", "no tool called"),
        ("Unusable: Expected 'a' tool call, but got 'b'", "wrong tool called"),
        ("Refused: planner: the model declined (refused).", "refused"),
        ("Truncated: the reply was cut off", "cut off"),
        ("ServerUnavailable: failed 5 times", "other error"),
    ],
)
def test_what_ended_a_question_is_told_from_its_error(error: str, tag: str) -> None:
    assert tag in error_tags(question(Observation=["o1"]), row(None, error), WRONG)


def test_running_out_of_turns_is_told_from_the_answer() -> None:
    tags = error_tags(
        question(Observation=["o1"]),
        row("No final answer reached within iteration limit."),
        WRONG,
    )
    assert "iteration limit" in tags


@pytest.mark.parametrize(
    ("gold", "got", "recalled", "tag"),
    [
        ({"Observation": ["o1"]}, {"Procedure": ["x"]}, False, "wrong resource type"),
        ({"Observation": ["o1"]}, {}, False, "nothing retrieved"),
        (
            {"Observation": ["o1"]},
            {"Observation": ["o2"]},
            False,
            "wrong resources of the type",
        ),
        (DRUGS, {"MedicationRequest": ["r1"]}, False, "reference not followed"),
        (
            DRUGS,
            {"MedicationRequest": ["r1"], "Medication": ["m9"]},
            False,
            "reference not followed",
        ),
        ({"Location": ["w1"]}, {"Encounter": ["e1"]}, False, "reference not followed"),
        ({"Encounter": ["e1"]}, {"Encounter": ["e1", "e2"]}, True, "encounter filter"),
        (
            {"Observation": ["o1"]},
            {"Observation": ["o1", "o2"]},
            True,
            "wrong answer from the right resources",
        ),
        (
            {"Observation": ["o1", "o2"]},
            {"Observation": ["o1"]},
            False,
            "resources missed",
        ),
    ],
)
def test_what_was_retrieved_tells_what_went_wrong(
    gold: dict[str, list[str]], got: dict[str, list[str]], recalled: bool, tag: str
) -> None:
    assert error_tags(question(**gold), row(**got), Verdict(False, recalled)) == [tag]


@pytest.mark.parametrize(
    ("query", "result", "tag"),
    [
        (
            "Observation?patient=p&code=http://loinc.org|2345-7",
            "{}",
            "over-specific code",
        ),
        ("Observation?patient=p&code=2345-7", "{}", "over-specific code"),
        ("Observation?patient=p&code=Glucose", "{}", "text vs code"),
        ("Observation?patient=p&code:text=Glucose", "{}", "text vs code"),
        (
            "Observation?patient=p&code=50931",
            "retrieved_fhir_resources['Observation'] (3 items)",
            None,
        ),
    ],
)
def test_searches_for_codes_that_find_nothing_are_told_apart(
    query: str, result: str, tag: str | None
) -> None:
    trace = used("fhir_request_get", result, query_string=query)
    tags = error_tags(question(Observation=["o1"]), row(trace=trace), WRONG)
    assert ({"over-specific code", "text vs code"} & set(tags)) == (
        {tag} if tag else set()
    )


def test_code_and_tools_that_failed_are_told_apart() -> None:
    failing = used(
        "execute_python_code", "{'error': \"KeyError: 'x'\"}", code="answer = {}['x']"
    )
    assert "code exception" in error_tags(
        question(Observation=["o1"]), row(trace=failing), WRONG
    )
    refused = used(
        "fhir_request_get",
        "{'error': 'There is no resource type Obs.'}",
        query_string="Obs",
    )
    assert "tool error" in error_tags(
        question(Observation=["o1"]), row(trace=refused), WRONG
    )


def test_declining_what_is_there_and_answering_what_is_not_are_told_apart() -> None:
    with_resources, recalled = question(Observation=["o1"]), Verdict(False, True)
    assert "declined what is there" in error_tags(
        with_resources, row("No record of it was found.", Observation=["o1"]), recalled
    )
    assert "declined what is there" not in error_tags(
        with_resources, row("No", Observation=["o1"]), recalled
    )
    assert error_tags(question(), row("7"), recalled) == ["answered what is not there"]


@pytest.mark.parametrize(
    "trace",
    [None, "text", [1, None], [{"role": "tool"}], [{"tool_calls": [{"id": 1}]}]],
)
def test_any_trace_is_borne(trace: Any) -> None:
    assert error_tags(
        question(Observation=["o1"]), {**row(), "trace": trace}, WRONG
    ) == ["nothing retrieved"]


def test_the_table_counts_questions_and_their_share_most_frequent_first() -> None:
    tags = error_table({"a": ["x"], "b": ["y", "x"], "c": []}, 4)
    assert list(tags.items()) == [
        ("x", {"questions": 2.0, "share": 0.5}),
        ("y", {"questions": 1.0, "share": 0.25}),
    ]
