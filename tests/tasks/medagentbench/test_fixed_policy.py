"""A model that follows fixed rules does the tasks with the typed tools.

It proves environment, tools and graders, and is no model's score.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.evaluation.scoring import score
from archqa.fhir import Store
from archqa.runs.predict import predict
from tests.fakes.fixed_policy import PolicyServer
from tests.tasks.medagentbench.invented import (
    SyntheticBenchmark,
    build_benchmark,
    observation,
    patient,
    task,
)


@pytest.fixture(scope="module")
def finished(
    benchmark: SyntheticBenchmark,
    policy: PolicyServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    predict(benchmark.tasks, out=out, record=str(benchmark.store), **policy.options)
    return out


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_branch_of_the_ten_kinds_is_right_by_both_gradings(
    finished: Path,
) -> None:
    report = score(finished)
    assert report.faults is not None
    assert {
        task_id: faults
        for task_id, faults in report.faults.items()
        if faults["official"] or faults["clinical"]
    } == {}
    assert report.scores.scores["success_rate"] == 100
    assert report.scores.scores["clinical_success_rate"] == 100


def test_the_files_are_the_benchmarks(
    finished: Path, benchmark: SyntheticBenchmark
) -> None:
    rows = lines(finished / "runs.jsonl")
    assert [row["index"] for row in rows] == list(range(len(benchmark.rows)))
    first_row = rows[0]
    assert set(first_row) >= {"index", "error", "info", "output", "time"}
    assert set(first_row["output"]) == {"index", "status", "result", "history"}
    assert [turn["role"] for turn in first_row["output"]["history"]] == [
        "user",
        "agent",
        "user",
        "agent",
    ]
    assert first_row["output"]["result"] == '["S9000001"]'
    overall = json.loads((finished / "overall.json").read_text())
    assert overall["total"] == len(benchmark.rows)
    assert overall["validation"]["completed"] == 1
    assert overall["custom"]["success rate"] == 1
    assert overall["custom"]["raw_results"][0]["status"] == "completedCorrect"
    submission = json.loads((finished / "submission.json").read_text())
    assert submission["task9_1"] == "[3.2]"


def test_the_answer_is_kept_apart_from_its_explanation_and_what_it_cites(
    finished: Path,
) -> None:
    records = {
        record["id"]: record["result"] for record in lines(finished / "cases.jsonl")
    }
    assert records["task6_1"]["result"] == "[100.5]"  # (90 + 111) / 2
    assert records["task6_1"]["cited"] == {"Observation": ["S9000001-4", "S9000001-5"]}
    assert "mean" in records["task6_1"]["explanation"]


def test_every_write_is_in_the_audit_log_with_what_justified_it(finished: Path) -> None:
    audit = lines(finished / "audit.jsonl")
    potassium = [entry for entry in audit if entry["who"] == "task9_1"]
    assert [entry["payload"]["resourceType"] for entry in potassium] == [
        "MedicationRequest",
        "ServiceRequest",
    ]
    assert {entry["evidence"][0] for entry in potassium} == {"Observation/S9000001-7"}
    assert {entry["mode"] for entry in audit} == {"record"}
    # Two blood pressures, three low magnesiums, two referrals, one potassium with its check, HbA1c stale and absent.
    assert len(audit) == 2 + 3 + 2 + 2 + 2


def test_nothing_is_stored_in_the_benchmarks_mode(
    finished: Path, benchmark: SyntheticBenchmark
) -> None:
    with Store.open(benchmark.store) as store:
        assert set(store.counts()) == {"Patient", "Observation"}


def test_the_shapes_that_break_fhir_are_warnings_in_the_benchmarks_mode(
    finished: Path,
) -> None:
    referral = next(
        entry for entry in lines(finished / "audit.jsonl") if entry["who"] == "task8_1"
    )
    assert referral["status"] == 200
    assert {finding["level"] for finding in referral["findings"]} == {"warn"}
    assert any(finding["path"] == "note" for finding in referral["findings"])


@pytest.mark.parametrize("mode", ["validate", "apply"])
def test_writes_have_fhirs_shape_where_they_are_checked(
    mode: str, benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    out = tmp_path / "run"
    record = str(benchmark.store)
    predict(benchmark.tasks, out=out, record=record, writes=mode, **policy.options)
    audit = lines(out / "audit.jsonl")
    assert len(audit) == 11
    assert {entry["status"] for entry in audit} == {201 if mode == "apply" else 200}
    assert not [
        finding
        for entry in audit
        for finding in entry["findings"]
        if finding["level"] == "error"
    ]
    order = next(entry["payload"] for entry in audit if entry["who"] == "task5_2")
    assert order["dosageInstruction"][0]["route"] == {"text": "IV"}
    rate = order["dosageInstruction"][0]["doseAndRate"][0]["rateQuantity"]
    assert (rate["value"], rate["unit"]) == (1, "g/h")  # 2 g over 2 hours
    # Whoever reviews the work reads both shapes; the benchmark's own grader reads but one.
    assert score(out).scores.scores["success_rate"] < 100
    assert score(out).scores.scores["clinical_success_rate"] == 100
    with Store.open(benchmark.store) as store:
        assert set(store.counts()) == {"Patient", "Observation"}


def test_the_benchmarks_shape_is_refused_where_writes_are_checked(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    out = tmp_path / "run"
    run = predict(
        benchmark.tasks,
        out=out,
        record=str(benchmark.store),
        writes="validate",
        shape="benchmark",
        **policy.options,
    )
    referral = next(record for record in run.records if record.id == "task8_1")
    assert referral.result.history[-2]["content"].startswith(
        "Invalid POST request: note must be a list"
    )
    assert "note must be a list" in referral.result.explanation


def test_a_record_may_be_read_only(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    out = tmp_path / "run"
    predict(
        benchmark.tasks,
        out=out,
        record=str(benchmark.store),
        writes="read-only",
        **policy.options,
    )
    assert {entry["status"] for entry in lines(out / "audit.jsonl")} == {403}
    assert score(out).scores.scores["query_success_rate"] == 100


def test_an_order_that_stands_already_is_not_written_again(
    tmp_path: Path, policy: PolicyServer
) -> None:
    benchmark = build_benchmark(tmp_path, [task(8, "S9000001")])
    standing = {
        "resourceType": "ServiceRequest",
        "id": "standing",
        "status": "active",
        "intent": "order",
        "authoredOn": "2023-11-13T07:00:00+00:00",
        "subject": {"reference": "Patient/S9000001"},
        "code": {
            "coding": [{"system": "http://snomed.info/sct", "code": "306181000000106"}]
        },
    }
    more = tmp_path / "more.ndjson"
    more.write_text(json.dumps(standing))
    Store.open(benchmark.store).load([more])
    run = predict(
        benchmark.tasks,
        out=tmp_path / "run",
        record=str(benchmark.store),
        **policy.options,
    )
    [record] = run.records
    assert "written for this patient already (standing)" in record.result.explanation
    assert record.result.written == ()


def test_a_measurement_in_another_unit_is_no_ground_for_an_order(
    tmp_path: Path, policy: PolicyServer
) -> None:
    benchmark = build_benchmark(tmp_path, [task(5, "S9000099")])
    more = tmp_path / "more.ndjson"
    extra = (
        patient("S9000099", "Gil", "Muster", "1955-05-05"),
        observation("S9000099", "MG", 0.7, "2023-11-13T08:00:00+00:00", 1, "mmol/L"),
    )
    more.write_text("".join(json.dumps(resource) + "\n" for resource in extra))
    Store.open(benchmark.store).load([more])
    run = predict(
        benchmark.tasks,
        out=tmp_path / "run",
        record=str(benchmark.store),
        **policy.options,
    )
    [record] = run.records
    assert "this one is in mmol/L" in record.result.explanation
    assert record.result.written == ()


def test_a_person_may_decline(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    asked_types: list[str] = []

    def decline(url: str, payload: Any) -> bool:
        asked_types.append(payload["resourceType"])
        return False

    out = tmp_path / "run"
    record = str(benchmark.store)
    predict(benchmark.tasks, out=out, record=record, confirm=decline, **policy.options)
    assert sorted(set(asked_types)) == [
        "MedicationRequest",
        "Observation",
        "ServiceRequest",
    ]
    assert {entry["status"] for entry in lines(out / "audit.jsonl")} == {409}


def test_the_benchmarks_own_tasks_are_solved_end_to_end(
    tasks_v1: Path, tmp_path: Path, policy: PolicyServer
) -> None:
    benchmark = tmp_path / "record.db"
    data = [tasks_v1.parent / name for name in ("Patient.ndjson", "Observation.ndjson")]
    Store.open(benchmark, create=True).load(data)
    predict(tasks_v1, out=tmp_path / "run", record=str(benchmark), **policy.options)
    report = score(tmp_path / "run", key=tasks_v1, record=str(benchmark))
    rates = {
        name: rate
        for name, rate in report.scores.scores.items()
        if name.endswith("success_rate")
    }
    assert set(rates.values()) == {100.0}
    # What the organisers' own grader gave for constant replies on these tasks (medagentbench.md, B4).
    assert {
        name: rates["success_rate"] for name, rates in report.baselines.items()
    } == {
        "FINISH([])": 24,
        "FINISH([-1])": 14,
        "FINISH()": 6,
    }
