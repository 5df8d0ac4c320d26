"""The agent with typed tools, performed by models that say what they are told to."""

from pathlib import Path

import pytest

from archqa.fhir import Store
from archqa.llm.model import Reply, ToolCall
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from tests.fakes.replies import refusal_reply, tool_call_reply
from tests.fakes.server import FakeServer
from tests.tasks.medagentbench.invented import SyntheticBenchmark, task
from tests.tasks.medagentbench.typed_agent import (
    ScriptedAgent,
    finish,
    is_correct,
    run_task,
    tool_results,
)

ONE, TWO = "S9000001", "S9000002"


def test_a_question_is_answered_with_what_it_cites(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    look = tool_call_reply(
        ("search_labs", {"patient": ONE, "code": "MG", "within_hours": 24})
    )
    record = run_task(
        benchmark,
        tmp_path,
        task(4, ONE),
        [look, finish(1.9, cited=(f"Observation/{ONE}-2",))],
    )
    assert record.result.result == "[1.9]"
    assert record.result.cited == {"Observation": (f"{ONE}-2",)}
    assert record.result.explanation == "So it is."
    assert is_correct(tmp_path)


def test_every_act_is_a_turn_of_the_benchmarks_conversation(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    look = tool_call_reply(
        ("search_labs", {"patient": ONE, "code": "MG", "within_hours": 24})
    )
    record = run_task(benchmark, tmp_path, task(4, ONE), [look, finish(1.9)])
    turns = [
        turn["content"] for turn in record.result.history if turn["role"] == "agent"
    ]
    assert turns[0].startswith(
        f"GET http://localhost:8080/fhir/Observation?patient={ONE}&code=MG&date=ge2023-11-12T10:15:00%2B00:00&"
    )
    assert turns[1] == "FINISH([1.9])"


def test_a_patient_is_found_by_name(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        tool_call_reply(("find_patients", {"name": "Ben", "birthdate": "1990-02-28"})),
        finish(TWO),
    )
    record = run_task(benchmark, tmp_path, task(2, TWO), agent)
    [search_result] = tool_results(agent.requests)
    assert search_result["resources"][0] == {
        "id": f"Patient/{TWO}",
        "name": [{"use": "official", "family": "Beispiel", "given": ["Ben"]}],
        "birthDate": "1990-02-28",
        "record_number": [TWO],
    }
    assert record.status is CaseStatus.ANSWERED


@pytest.mark.parametrize(
    "tool",
    ["search_vitals", "search_problems", "search_medications", "search_procedures"],
)
def test_the_other_searches_find_nothing_where_nothing_is(
    tool: str, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        tool_call_reply((tool, {"patient": ONE, "within_hours": 48})), finish()
    )
    run_task(benchmark, tmp_path, task(3, ONE), agent)
    [nothing] = tool_results(agent.requests)
    assert (nothing["found"], nothing["resources"], nothing["patient_known"]) == (
        0,
        [],
        True,
    )
    assert nothing["remark"].startswith(
        f"The record has the patient {ONE}, but nothing"
    )


def test_an_empty_result_says_that_the_patient_is_unknown(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        tool_call_reply(
            ("search_labs", {"patient": "S9999999", "code": "MG"}),
            ("find_patients", {"identifier": "S9999999"}),
            ("find_patients", {"identifier": ONE, "family": "Nobody"}),
        ),
        finish(-1),
    )
    run_task(benchmark, tmp_path, task(4, ONE), agent)
    labs, unknown, other_name = tool_results(agent.requests)
    assert labs["patient_known"] is False
    assert (
        labs["remark"] == "The record has no patient S9999999: check the record number."
    )
    assert unknown["remark"] == "The record has no such patient."
    assert f"has a patient {ONE}, but none who fits all" in other_name["remark"]


def test_a_vital_sign_and_a_time_relative_to_the_clock(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    sign = {
        "patient": ONE,
        "flowsheet": "BP",
        "value": "118/77 mmHg",
        "evidence": [f"Patient/{ONE}"],
    }
    agent = ScriptedAgent(
        tool_call_reply(
            ("find_patients", {"identifier": ONE}),
            ("dates", {"days": 1, "at": "08:00"}),
        ),
        tool_call_reply(("record_vital", sign)),
        tool_call_reply(("record_vital", {**sign, "settled": True})),
        finish(),
    )
    run_task(benchmark, tmp_path, task(3, ONE), agent)
    assert tool_results(agent.requests)[1] == {
        "now": "2023-11-13T10:15:00+00:00",
        "time": "2023-11-14T08:00:00+00:00",
    }
    assert is_correct(tmp_path)


def test_arithmetic_is_read_and_never_run(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    expressions = (
        "(3.5 - 3.2) / 0.1 * 10",
        "mean([90, 111])",
        "__import__('os').getcwd()",
        "9**9**9",
        "1 / 0",
    )
    agent = ScriptedAgent(
        tool_call_reply(
            *(("calculate", {"expression": expression}) for expression in expressions)
        ),
        finish(),
    )
    run_task(benchmark, tmp_path, task(6, ONE), agent)
    sum_, mean, *refused = tool_results(agent.requests)
    assert (sum_["value"], mean["value"]) == (30, 100.5)
    assert all("error" in result for result in refused)


def test_ages_and_differences_of_dates_are_calculated_without_rounding(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    expressions = (
        "age('1950-11-14', now)",
        "days('2023-11-12T22:15:00+00:00', now)",
        "hours('2023-11-13', now)",
        "10 / 3",
        "age('no date', now)",
        "days('2023-11-12T22:15:00', now)",
    )
    agent = ScriptedAgent(
        tool_call_reply(
            *(("calculate", {"expression": expression}) for expression in expressions)
        ),
        finish(),
    )
    run_task(benchmark, tmp_path, task(2, ONE), agent)
    *values, no_date, zones = tool_results(agent.requests)
    assert [result["value"] for result in values] == [72, 0.5, 10.25, 10 / 3]
    assert "is no date" in no_date["error"]
    assert "zone" in zones["error"]


def test_a_dose_is_by_the_unit_of_the_instructions(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    calls = [
        ("replacement_dose", {"measured": 0.7, "unit": "mmol/L"}),
        ("replacement_dose", {"measured": 0.7}),
        ("replacement_dose", {"measured": 2.4, "unit": "MG/DL"}),
    ]
    agent = ScriptedAgent(tool_call_reply(*calls), finish())
    run_task(benchmark, tmp_path, task(5, ONE), agent)
    wrong, missing, normal = tool_results(agent.requests)
    assert "are for values in mg/dL, and this one is in mmol/L" in wrong["error"]
    assert "unit" in missing["error"]
    assert normal["low"] is False
    assert "IV: 4 g over 4 hours" in normal["rule"]


def test_wrong_calls_come_back_in_words(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    malformed_reply = Reply(
        text="",
        tool_calls=(ToolCall(id="c", name="search_labs", arguments="{not json"),),
    )
    agent = ScriptedAgent(
        tool_call_reply(("search_everything", {})),
        tool_call_reply(("search_labs", {"code": "MG"})),
        malformed_reply,
        tool_call_reply(("find_patients", {})),
        tool_call_reply(("finish", {"answers": [[1.9]]})),
        tool_call_reply(
            ("finish", {"answers": [1.9], "cited": ["Observation/never-read"]})
        ),
        finish(1.9),
    )
    record = run_task(benchmark, tmp_path, task(4, ONE), agent)
    assert all("error" in result for result in tool_results(agent.requests))
    assert record.result.result == "[1.9]"


def test_prose_is_reminded_of_tools_and_given_up_after_three(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    record = run_task(
        benchmark, tmp_path, task(4, ONE), lambda _: "It is 1.9, I think."
    )
    assert record.result.status == "agent invalid action"
    assert record.usage.calls == 3


def test_an_agent_that_never_finishes_reaches_the_limit(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    look = tool_call_reply(("search_labs", {"patient": ONE, "code": "MG"}))
    record = run_task(benchmark, tmp_path, task(4, ONE), lambda _: look)
    assert record.result.status == "task limit reached"
    # The last turn is kept for finish, so that seven searches are the most.
    assert sum(turn["role"] == "agent" for turn in record.result.history) == 7


def test_a_model_that_declines_is_a_refusal(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    assert (
        run_task(benchmark, tmp_path, task(4, ONE), [refusal_reply()]).status
        is CaseStatus.UNANSWERABLE
    )


@pytest.mark.parametrize("pipeline", ["paper", "typed"])
def test_a_model_behind_a_server_comes_to_an_end(
    pipeline: str, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    with FakeServer() as server:
        run = predict(
            benchmark.tasks,
            out=tmp_path / "run",
            pipeline=pipeline,
            record=str(benchmark.store),
            base_url=server.base_url,
            model="fake",
            cache=False,
        )
    assert run.complete
    assert {record.result.status for record in run.records} <= {
        "agent invalid action", "task limit reached", "completed",
    }  # fmt: skip
    assert not any("Unforeseen" in record.error for record in run.records)
    with Store.open(benchmark.store) as store:
        assert set(store.counts()) == {"Patient", "Observation"}


def test_a_text_of_the_record_changes_no_rule(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    """What a record says is data: a model that obeys it still cannot write for another patient."""
    sign = {
        "patient": "S9000006",
        "flowsheet": "BP",
        "value": "1/1 mmHg",
        "evidence": [f"Patient/{ONE}"],
        "settled": True,
    }
    agent = ScriptedAgent(
        tool_call_reply(("find_patients", {"identifier": ONE})),
        tool_call_reply(("record_vital", sign)),
        finish(),
    )
    record = run_task(benchmark, tmp_path, task(3, ONE), agent)
    assert record.result.written == ()
