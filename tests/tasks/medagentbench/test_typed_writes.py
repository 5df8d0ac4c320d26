"""Writes of the agent with typed tools: shown first, justified, refused with a reason, told by id."""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import Store
from archqa.llm.model import Reply, Request
from tests.fakes.replies import tool_call_reply
from tests.tasks.medagentbench.invented import (
    SENTENCE,
    SyntheticBenchmark,
    build_benchmark,
    observation,
    task,
)
from tests.tasks.medagentbench.typed_agent import (
    ScriptedAgent,
    finish,
    is_correct,
    run_task,
    tool_results,
)

ONE, TWO = "S9000001", "S9000002"

ORDER = {
    "patient": TWO,
    "ndc": "0338-1715-40",
    "name": "magnesium",
    "route": "IV",
    "dose": 2,
    "unit": "g",
    "hours": 2,
}
PROOF = {"evidence": [f"Observation/{TWO}-1"]}
LOOK = tool_call_reply(
    ("find_patients", {"identifier": TWO}),
    ("search_labs", {"patient": TWO, "code": "MG", "within_hours": 24}),
)


def test_an_order_is_shown_before_it_is_written(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        LOOK,
        tool_call_reply(("replacement_dose", {"measured": 1.4, "unit": "mg/dL"})),
        tool_call_reply(("order_medication", {**ORDER, **PROOF})),
        tool_call_reply(("order_medication", {**ORDER, **PROOF, "settled": True})),
        finish(1.4),
    )
    record = run_task(benchmark, tmp_path, task(5, TWO), agent)
    _, _, dose, shown, final = tool_results(agent.requests)
    rule = "(2) Moderate deficiency (serum magnesium 1 to <1.5 mg/dL): IV: 2 g over 2 hours"
    assert dose == {
        "low": True,
        "dose": 2,
        "unit": "g",
        "route": "IV",
        "hours": 2,
        "rule": rule,
    }
    assert (shown["written"], shown["against_it"]) == (False, [])
    assert (final["written"], final["payload"]) == (True, shown["would_be_written"])
    assert final["id"] is None
    assert "nothing is stored" in final["remark"]
    assert is_correct(tmp_path)
    [attempt] = record.result.written
    assert attempt["evidence"] == (f"Observation/{TWO}-1",) or attempt["evidence"] == [
        f"Observation/{TWO}-1"
    ]


def test_settled_at_once_is_shown_all_the_same(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        LOOK,
        tool_call_reply(("order_medication", {**ORDER, **PROOF, "settled": True})),
        finish(1.4),
    )
    record = run_task(benchmark, tmp_path, task(5, TWO), agent)
    assert tool_results(agent.requests)[2]["written"] is False
    assert record.result.written == ()


MEASURED = tool_call_reply(
    ("search_labs", {"patient": TWO, "code": "MG", "within_hours": 24})
)
QUOTED = {"evidence": ["instruction: order replacement magnesium"]}
AGAINST = {
    "nothing read": ([], {}, f"The patient {TWO} was not looked up in this task"),
    "measured only": (
        [MEASURED],
        {},
        f"The patient {TWO} was not looked up in this task",
    ),
    "invented quotation": ([LOOK], QUOTED, "The instruction does not say"),
    "one word quoted": (
        [LOOK],
        {"evidence": ["instruction: order"]},
        "at least 3 words",
    ),
    "another patient": (
        [LOOK],
        {"patient": ONE},
        f"The instruction is not about the patient {ONE}.",
    ),
    "no such patient": (
        [LOOK],
        {"patient": "S9999999"},
        "The record has no patient S9999999.",
    ),
    "another code": ([LOOK], {"ndc": "1-1-1"}, "The instruction names no code 1-1-1."),
    "another unit": ([LOOK], {"unit": "mg"}, "The instruction gives no dose in mg."),
    "invented evidence": (
        [LOOK],
        {"evidence": ["Observation/none"]},
        "Observation/none was not read in this task.",
    ),
}


@pytest.mark.parametrize("name", AGAINST)
def test_a_write_that_contradicts_the_record_is_refused_with_the_reason(
    name: str, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    before, change, reason = AGAINST[name]
    order = tool_call_reply(("order_medication", {**ORDER, **PROOF, **change}))
    again = tool_call_reply(
        ("order_medication", {**ORDER, **PROOF, **change, "settled": True})
    )
    agent = ScriptedAgent(*before, order, again, finish())
    record = run_task(benchmark, tmp_path, task(5, TWO), agent)
    shown, again_shown = tool_results(agent.requests)[-2:]
    assert any(reason in objection for objection in shown["against_it"])
    assert again_shown["written"] is False
    assert record.result.written == ()


def test_a_measurement_in_another_unit_justifies_no_order(tmp_path: Path) -> None:
    benchmark = build_benchmark(tmp_path)
    more = tmp_path / "more.ndjson"
    result = observation(TWO, "MG", 0.7, "2023-11-13T08:00:00+00:00", 9, "mmol/L")
    more.write_text(json.dumps(result))
    Store.open(benchmark.store).load([more])
    order = {**ORDER, "evidence": [f"Observation/{TWO}-9"]}
    agent = ScriptedAgent(
        LOOK, tool_call_reply(("order_medication", order)), finish(0.7)
    )
    run_task(benchmark, tmp_path, task(5, TWO), agent)
    reasons = tool_results(agent.requests)[2]["against_it"]
    assert any(
        "is in another unit than the instruction's" in reason for reason in reasons
    )


def test_a_write_without_evidence_is_refused(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        LOOK,
        tool_call_reply(("order_medication", ORDER)),
        tool_call_reply(("order_medication", {**ORDER, "evidence": []})),
        finish(1.4),
    )
    record = run_task(benchmark, tmp_path, task(5, TWO), agent)
    missing, empty = tool_results(agent.requests)[-2:]
    assert "evidence: Field required" in missing["error"]
    assert "evidence" in empty["error"]
    assert record.result.written == ()


def test_a_condition_must_be_looked_at_before_an_order(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    agent = ScriptedAgent(
        tool_call_reply(("find_patients", {"identifier": TWO})),
        tool_call_reply(
            ("order_medication", {**ORDER, "evidence": [f"Patient/{TWO}"]})
        ),
        finish(),
    )
    run_task(benchmark, tmp_path, task(5, TWO), agent)
    assert any(
        "sets a condition" in objection
        for objection in tool_results(agent.requests)[1]["against_it"]
    )


def test_nothing_is_written_that_was_not_asked_for(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    evidence = [f"Patient/{TWO}"]
    sign = {
        "patient": TWO,
        "flowsheet": "BP",
        "value": "118/77 mmHg",
        "evidence": evidence,
    }
    agent = ScriptedAgent(
        tool_call_reply(("find_patients", {"identifier": TWO})),
        tool_call_reply(("record_vital", sign)),
        finish(1.4),
    )
    run_task(benchmark, tmp_path, task(4, TWO), agent)
    reasons = tool_results(agent.requests)[1]["against_it"]
    assert (
        "The instruction does not ask for a Observation." in reasons
        or "does not ask" in reasons[0]
    )


def test_an_order_is_not_written_twice(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    referral = {
        "patient": ONE,
        "system": "http://snomed.info/sct",
        "code": "306181000000106",
        "name": "referral",
        "note": SENTENCE,
        "evidence": ["instruction: order a referral to orthopedic surgery"],
    }
    twice = [
        tool_call_reply(("order_service", referral)),
        tool_call_reply(("order_service", {**referral, "settled": True})),
    ]
    agent = ScriptedAgent(
        tool_call_reply(("find_patients", {"identifier": ONE})),
        *twice,
        twice[1],
        finish(),
    )
    record = run_task(benchmark, tmp_path, task(8, ONE), agent)
    assert (
        "written for this patient already" in tool_results(agent.requests)[3]["error"]
    )
    assert [attempt["status"] for attempt in record.result.written] == [200, 409]
    assert is_correct(tmp_path)


REFERRAL = {
    "patient": ONE,
    "system": "http://snomed.info/sct",
    "code": "306181000000106",
    "name": "referral",
    "note": SENTENCE,
    "evidence": [f"Patient/{ONE}"],
}


def finish_citing_the_new_order(request: Request) -> Reply:
    *_, written = tool_results([request])
    return finish(cited=(written["id"],) if written["id"] else ())


def refer(
    benchmark: SyntheticBenchmark, tmp_path: Path, **more: Any
) -> list[dict[str, Any]]:
    """What the tools told of a referral whose new id, if it has one, is cited."""
    agent = ScriptedAgent(
        tool_call_reply(
            ("find_patients", {"identifier": ONE}), ("order_service", REFERRAL)
        ),
        tool_call_reply(("order_service", {**REFERRAL, "settled": True})),
        finish_citing_the_new_order,
    )
    record = run_task(benchmark, tmp_path, task(8, ONE), agent, **more)
    assert record.result is not None, record.error
    assert record.result.status == "completed"
    return tool_results(agent.requests)


@pytest.mark.parametrize(
    ("mode", "priority"), [("apply", "routine"), ("record", "stat")]
)
def test_an_order_is_urgent_only_where_that_is_said_or_the_benchmark_asks_for_it(
    mode: str, priority: str, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    *_, written = refer(benchmark, tmp_path, writes=mode)
    assert written["payload"]["priority"] == priority


def test_the_id_of_a_new_order_is_told_and_may_be_cited(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    *_, written = refer(benchmark, tmp_path, writes="apply")
    kind, _, new_id = written["id"].partition("/")
    assert (kind, bool(new_id)) == ("ServiceRequest", True)
    assert "remark" not in written
