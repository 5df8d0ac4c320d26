"""Odd transcripts by kind: what the benchmark's own grader makes of each (medagentbench.md, B4)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from scoring.tasks.medagentbench_official import official_faults
from scoring.tasks.medagentbench_transcript import (
    Message,
    Transcript,
    read_runs,
    read_tasks,
)
from tests.tasks.medagentbench.graded_work import (
    A1C,
    K_ORDER,
    MG,
    ONE,
    RATE,
    REFERRAL,
    SIX,
    TWO,
    a1c_work,
    graded,
    kinds,
    magnesium_work,
    potassium_work,
    referral_work,
    vital_sign_work,
)
from tests.tasks.medagentbench.invented import (
    SyntheticBenchmark,
    patient_lookup_task,
    task,
)
from tests.tasks.medagentbench.talking import (
    ACCEPTED,
    BASE,
    transcript_posting,
    vital_sign_payload,
    with_value,
)

WORKS = {
    "blood pressure": vital_sign_work(vital_sign_payload(ONE)),
    "magnesium": magnesium_work(MG),
    "referral": referral_work(REFERRAL),
    "potassium": potassium_work(),
    "HbA1c": a1c_work(A1C),
}
BLOOD_PRESSURE = f"POST {BASE}Observation\n{json.dumps(vital_sign_payload(ONE))}"


def finished_with(transcript: Transcript, result: str) -> Transcript:
    last = Message("agent", f"FINISH({result})")
    return replace(
        transcript, result=result, messages=(*transcript.messages[:-1], last)
    )


def read_transcript(result: Any, *contents: str) -> Transcript:
    """The conversation as `runs.jsonl` holds it; agent and controller take turns."""
    history = []
    for index, content in enumerate(contents):
        history.append(
            {"role": "agent" if index % 2 == 0 else "user", "content": content}
        )
    output = {"status": "completed", "result": result, "history": history}
    return read_runs([{"index": 0, "output": output}], ["task1_1"])["task1_1"]


def with_accepted_turn(transcript: Transcript, text: str) -> Transcript:
    """The same conversation with one more accepted turn of the agent before the others."""
    turn = (Message("agent", text), Message("user", ACCEPTED))
    first, *rest = transcript.messages
    return replace(transcript, messages=(first, *turn, *rest))


@pytest.mark.parametrize("name", WORKS)
def test_the_letters_post_in_finish_make_an_action_wrong(
    name: str, benchmark: SyntheticBenchmark
) -> None:
    row, transcript = WORKS[name]
    assert kinds(graded(benchmark, row, transcript))[0] == set()
    boasting = finished_with(transcript, '["POST done"]')
    assert kinds(graded(benchmark, row, boasting))[0] == {"system_error"}


def test_a_last_post_without_a_reply_makes_an_action_wrong(
    benchmark: SyntheticBenchmark,
) -> None:
    row, transcript = WORKS["blood pressure"]
    cut_off = replace(
        transcript, messages=(*transcript.messages, Message("agent", BLOOD_PRESSURE))
    )
    assert kinds(graded(benchmark, row, cut_off))[0] == {"system_error"}


def test_the_letters_post_in_the_controllers_last_message_do_no_harm(
    benchmark: SyntheticBenchmark,
) -> None:
    row, transcript = WORKS["blood pressure"]
    closed = replace(
        transcript, messages=(*transcript.messages, Message("user", "POST counted"))
    )
    assert kinds(graded(benchmark, row, closed)) == (set(), set())


@pytest.mark.parametrize(
    "result", [[1.9], 1.9, {"answer": 1.9}], ids=["list", "number", "object"]
)
def test_a_result_that_is_no_text_is_wrong_where_the_answer_counts(
    result: Any, benchmark: SyntheticBenchmark
) -> None:
    transcript = read_transcript(result, "FINISH([1.9])")
    official, _ = kinds(graded(benchmark, task(4, ONE), transcript))
    assert official == {"invalid_json_result"}


def test_a_reviewer_reads_a_result_that_is_a_list(
    benchmark: SyntheticBenchmark,
) -> None:
    _, clinical = kinds(
        graded(benchmark, task(4, ONE), read_transcript([1.9], "FINISH([1.9])"))
    )
    assert clinical == set()


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("blood pressure", set()),
        ("referral", set()),
        ("magnesium", {"invalid_json_result"}),
        ("potassium", {"invalid_json_result"}),
        ("HbA1c", {"invalid_json_result"}),
    ],
)
def test_a_result_that_is_a_list_is_wrong_in_the_actions_whose_answer_counts(
    name: str, faults: set[str], benchmark: SyntheticBenchmark
) -> None:
    row, transcript = WORKS[name]
    assert kinds(graded(benchmark, row, replace(transcript, result=[])))[0] == faults


def test_without_a_measurement_any_result_is_right(
    benchmark: SyntheticBenchmark,
) -> None:
    transcript = read_transcript(["nothing"], 'FINISH(["nothing"])')
    assert kinds(graded(benchmark, task(5, SIX), transcript))[0] == set()


UNREADABLE = {
    "fenced JSON": f"POST {BASE}Observation\n```json\n{{}}\n```",
    "a fenced turn": f"```tool_code\n{BLOOD_PRESSURE}\n```",
    "prose with POST": "I will POST the order as asked.",
    "prose before a POST": f"Now the POST:\n{BLOOD_PRESSURE}",
    "no body": f"POST {BASE}Observation",
    "a body nested too deeply": f"POST {BASE}Observation\n{'[' * 100_000}",
}


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_accepted_post_whose_body_does_not_parse_is_skipped(
    kind: str, name: str, benchmark: SyntheticBenchmark
) -> None:
    row, transcript = WORKS[name]
    talkative = with_accepted_turn(transcript, UNREADABLE[kind])
    assert kinds(graded(benchmark, row, talkative))[0] == set()


def test_a_post_that_only_stands_in_a_fence_is_not_there(
    benchmark: SyntheticBenchmark,
) -> None:
    transcript = read_transcript(
        "[]", UNREADABLE["a fenced turn"], ACCEPTED, "FINISH([])"
    )
    assert kinds(graded(benchmark, task(3, ONE), transcript)) == (
        {"wrong_post_count"},
        set(),
    )


def test_posts_are_compared_with_the_base_that_the_agents_were_told(
    benchmark: SyntheticBenchmark,
) -> None:
    elsewhere = "http://fhir.invalid:9000/r4/"
    url = f"{elsewhere}Observation"
    transcript = transcript_posting((url, vital_sign_payload(ONE)), finish="[]")
    [graded_task] = read_tasks([task(3, ONE)])

    def faults(base: str) -> list[str]:
        found = official_faults(graded_task, transcript, benchmark.lookup, base)
        return [fault.kind for fault in found]

    assert faults(elsewhere) == []
    assert faults(BASE) == ["wrong_endpoint"]


def test_a_number_beyond_all_bounds_is_wrong_and_nothing_breaks(
    benchmark: SyntheticBenchmark,
) -> None:
    huge = 10**400
    dose = with_value(K_ORDER, huge, *RATE, "doseQuantity", "value")
    row, transcript = potassium_work(order=dose)
    assert kinds(graded(benchmark, row, transcript))[0] == {"payload_validation_error"}
    mean = read_transcript(f"[{huge}]", f"FINISH([{huge}])")
    assert kinds(graded(benchmark, task(6, ONE), mean))[0] == {"answer_mismatch"}


def test_a_patient_search_without_a_gold_answer_is_wrong(
    benchmark: SyntheticBenchmark,
) -> None:
    row = patient_lookup_task("Ada Muster", "1950-11-14", TWO)
    row.pop("sol")
    transcript = read_transcript("[]", "FINISH([])")
    assert kinds(graded(benchmark, row, transcript))[0] == {"system_error"}
