"""MedAgentBench as it is typed.

Predict, score, and an unmodified client against `archqa fhir serve`.
"""

import json
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archqa.fhir import FhirService, Overlay, Store, WriteMode, Writer
from archqa.fhir.server.application import FhirApplication
from tests.cli.test_commands import archqa
from tests.fakes.fixed_policy import PolicyServer
from tests.tasks.medagentbench.invented import SyntheticBenchmark, task
from tests.tasks.medagentbench.paper_agent import always, fhir_server

ONE = "S9000001"
RATES = tuple(
    f"{prefix}{group}success_rate"
    for prefix in ("", "clinical_")
    for group in ("", "query_", "action_")
)


@pytest.fixture(scope="module")
def finished(
    benchmark: SyntheticBenchmark,
    policy: PolicyServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    arguments = (
        "predict",
        str(benchmark.tasks),
        "--record",
        str(benchmark.store),
        *policy.arguments,
        "--out",
        str(out),
    )
    process = archqa(*arguments)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == str(out)
    return out


def scored(*arguments: str) -> dict[str, Any]:
    process = archqa("score", *arguments, "--json")
    assert process.returncode == 0, process.stderr
    report: dict[str, Any] = json.loads(process.stdout)
    return report


def test_without_a_model_it_says_what_there_is(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    process = archqa(
        "predict",
        str(benchmark.tasks),
        "--record",
        str(benchmark.store),
        "--out",
        str(tmp_path / "run"),
    )
    assert process.returncode == 2
    assert "medagentbench needs a model, or --pipeline do-nothing" in process.stderr
    assert not (tmp_path / "run").exists()


def test_without_a_record_it_asks_for_one(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    arguments = (
        "predict",
        str(benchmark.tasks),
        *("--pipeline", "typed", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"),
        "--out",
        str(tmp_path / "run"),
    )
    process = archqa(*arguments)
    assert process.returncode == 2
    assert "--record" in process.stderr


def test_silence_needs_no_record_but_its_grading_does(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    out = str(tmp_path / "run")
    predicted = archqa(
        "predict", str(benchmark.tasks), "--pipeline", "do-nothing", "--out", out
    )
    assert predicted.returncode == 0
    assert "do-nothing calls no model" in predicted.stderr
    assert json.loads((tmp_path / "run" / "overall.json").read_text())["custom"] == {}
    process = archqa("score", out)
    assert process.returncode == 2
    assert "Name it with --record STORE_OR_URL" in process.stderr
    report = scored(out, "--record", str(benchmark.store))
    assert (
        report["scores"]["success_rate"]
        == report["baselines"]["FINISH([])"]["success_rate"]
        > 0
    )
    assert any("no score of any model" in warning for warning in report["warnings"])


def test_the_benchmarks_totals_have_no_grades_before_the_run_is_scored(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    out = tmp_path / "run"
    options = ("--record", str(benchmark.store), "--out", str(out))
    process = archqa("predict", str(benchmark.tasks), *options, *policy.arguments)
    assert process.returncode == 0, process.stderr
    predicted = json.loads((out / "overall.json").read_text())
    assert predicted["custom"] == {}
    scored(str(out))
    graded = json.loads((out / "overall.json").read_text())
    assert graded["custom"]["success rate"] == 1
    assert len(graded["custom"]["raw_results"]) == len(benchmark.rows)
    assert graded["validation"] == predicted["validation"]


def test_a_run_is_scored_by_both_gradings_beside_doing_nothing(
    finished: Path, benchmark: SyntheticBenchmark
) -> None:
    report = scored(
        str(finished), "--key", str(benchmark.tasks), "--record", str(benchmark.store)
    )
    assert {name: report["scores"][name] for name in RATES} == dict.fromkeys(RATES, 100)
    assert set(report["scores"]["by_task"]) == {
        f"task{number}" for number in range(1, 11)
    }
    assert set(report["baselines"]) == {"FINISH([])", "FINISH([-1])", "FINISH()"}
    assert report["baselines"]["FINISH()"]["success_rate"] == pytest.approx(
        100 * 2 / len(benchmark.rows)
    )
    assert any("context lengths do not" in warning for warning in report["warnings"])


@pytest.mark.parametrize(
    ("grading", "named"), [("official", RATES[:3]), ("clinical", RATES[3:])]
)
def test_one_grading_may_be_asked_for(
    grading: str, named: tuple[str, ...], finished: Path
) -> None:
    report = scored(str(finished), "--grading", grading)
    assert {name for name in report["scores"] if name.endswith("success_rate")} == set(
        named
    )


def test_an_unknown_grading_is_refused(finished: Path) -> None:
    process = archqa("score", str(finished), "--grading", "kind")
    assert process.returncode == 2
    assert "official, clinical, both" in process.stderr


def test_bare_runs_are_graded_alike(
    finished: Path, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    bare = tmp_path / "runs.jsonl"
    lines = [
        json.loads(line) for line in (finished / "runs.jsonl").read_text().splitlines()
    ]
    # As the benchmark itself writes them: the place in the task file, no id.
    bare.write_text(
        "".join(
            json.dumps({k: v for k, v in row.items() if k != "task_id"}) + "\n"
            for row in lines
        )
    )
    report = scored(
        str(bare), "--key", str(benchmark.tasks), "--record", str(benchmark.store)
    )
    assert report["scores"]["success_rate"] == 100
    assert report["faults"]["task3_1"] == {"official": [], "clinical": []}


@pytest.mark.parametrize(
    "base", ["http://fhir.invalid:9000/r4/", "http://fhir.invalid:9000/r4"]
)
def test_transcripts_recorded_elsewhere_are_graded_with_their_own_base_url(
    base: str, finished: Path, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    runs = tmp_path / "runs.jsonl"
    recorded = (finished / "runs.jsonl").read_text()
    runs.write_text(
        recorded.replace("http://localhost:8080/fhir/", "http://fhir.invalid:9000/r4/")
    )
    arguments = (
        str(runs),
        "--key",
        str(benchmark.tasks),
        "--record",
        str(benchmark.store),
    )
    without = scored(*arguments)
    assert without["scores"]["success_rate"] < 100
    assert without["scores"]["clinical_success_rate"] == 100
    assert any("--fhir-base" in warning for warning in without["warnings"])
    report = scored(*arguments, "--fhir-base", base)
    assert report["scores"]["success_rate"] == 100
    assert not any("--fhir-base" in warning for warning in report["warnings"])


def test_a_base_url_is_checked_and_belongs_to_this_task(
    finished: Path, tmp_path: Path
) -> None:
    process = archqa("score", str(finished), "--fhir-base", "localhost:8080/fhir")
    assert process.returncode == 2
    assert "is not a URL" in process.stderr
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps([{"case_id": "1", "answer": "Fever. |2|"}]))
    process = archqa(
        "score", str(answers), "--fhir-base", "http://localhost:8080/fhir/"
    )
    assert process.returncode == 2
    assert "belongs to MedAgentBench" in process.stderr


def test_faults_and_kinds_of_failure_come_with_the_scores(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    row = {
        "index": 0,
        "output": {
            "status": "completed",
            "result": "[7]",
            "history": [{"role": "agent", "content": "x"}],
        },
    }
    wrong = [{**row, "index": index} for index in range(len(benchmark.rows))]
    (tmp_path / "runs.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in wrong)
    )
    report = scored(
        str(tmp_path / "runs.jsonl"),
        "--key",
        str(benchmark.tasks),
        "--record",
        str(benchmark.store),
    )
    assert report["scores"]["by_failure"]["wrong_post_count"]["official"] > 0
    assert report["faults"]["task2_1"]["official"][0]["kind"] == "answer_mismatch"


def test_a_record_that_is_gone_is_one_clear_error(
    finished: Path, tmp_path: Path
) -> None:
    process = archqa("score", str(finished), "--record", str(tmp_path / "none.db"))
    assert process.returncode == 3
    assert "none.db" in process.stderr


def test_a_few_tasks_keep_their_places_in_the_file(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    arguments = (
        "--record",
        str(benchmark.store),
        "--pipeline",
        "do-nothing",
        "--case",
        "task5_6",
        "--out",
        str(out),
    )
    assert archqa("predict", str(benchmark.tasks), *arguments).returncode == 0
    [row] = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    assert row["index"] == [task_row["id"] for task_row in benchmark.rows].index(
        "task5_6"
    )
    report = scored(str(out))
    assert report["scores"]["success_rate"] == 100.0, (
        "a partial run is scored over its own tasks"
    )
    of_all = scored(str(out), "--all-cases")
    assert of_all["scores"]["success_rate"] == pytest.approx(100 / len(benchmark.rows))
    overall = json.loads((out / "overall.json").read_text())
    assert overall["custom"]["success rate"] == 1  # This task needs no order.


def test_a_run_whose_tasks_and_record_moved_is_graded_where_they_are_named(
    finished: Path, benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    run, tasks, store = (tmp_path / name for name in ("run", "tasks.json", "record.db"))
    shutil.copytree(finished, run)
    shutil.copy(benchmark.tasks, tasks)
    shutil.copy(benchmark.store, store)
    assert (
        scored(str(run), "--key", str(tasks), "--record", str(store))["scores"][
            "success_rate"
        ]
        == 100
    )


def test_a_person_at_the_terminal_is_asked(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([task(3, ONE)]))
    arguments = (
        "--record",
        str(benchmark.store),
        *policy.arguments,
        "--confirm",
        "--quiet",
    )
    for answer, status in (("y\n", 200), ("n\n", 409), ("", 409)):
        out = tmp_path / f"run{status}{len(answer)}"
        process = archqa(
            "predict", str(tasks), *arguments, "--out", str(out), stdin=answer
        )
        assert "An agent wants to POST this" in process.stderr
        [entry] = [
            json.loads(line) for line in (out / "audit.jsonl").read_text().splitlines()
        ]
        assert entry["status"] == status


def test_malformed_tasks_are_refused_with_all_their_mistakes(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.json"
    rows = [
        {"id": "task1_1", "instruction": "Do.", "eval_MRN": "S1"},
        {"id": "task1_1", "instruction": 7},
    ]
    tasks.write_text(json.dumps(rows))
    process = archqa(
        "predict", str(tasks), "--pipeline", "do-nothing", "--record", "x.db"
    )
    assert process.returncode == 3
    assert "stands in an earlier task too" in process.stderr
    assert "$.instruction" in process.stderr


def test_a_damaged_runs_file_is_refused_by_its_lines(
    benchmark: SyntheticBenchmark, tmp_path: Path
) -> None:
    rows = [{"index": 9999, "output": {}}, {"index": 0, "output": {"history": [7]}}]
    (tmp_path / "runs.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    arguments = ("--key", str(benchmark.tasks), "--record", str(benchmark.store))
    process = archqa("score", str(tmp_path / "runs.jsonl"), *arguments)
    assert process.returncode == 3
    assert "line 1: index is no place" in process.stderr
    assert "line 2: output must hold" in process.stderr


def test_grading_a_server_that_fails_is_one_clear_error(
    benchmark: SyntheticBenchmark, finished: Path
) -> None:
    with fhir_server(
        always(400, {"resourceType": "OperationOutcome", "issue": []})
    ) as (url, _):
        process = archqa("score", str(finished), "--record", url)
    assert process.returncode != 0
    assert "Traceback" not in process.stderr


@contextmanager
def serve_record(record: Store | Overlay, mode: WriteMode) -> Iterator[str]:
    """The record behind `archqa fhir serve`, on a free port; its base with a slash at the end."""
    uvicorn = pytest.importorskip("uvicorn")
    application = FhirApplication(
        FhirService(record, "http://localhost:8080/fhir", Writer(record, mode)),
        path="/fhir",
    )
    server = uvicorn.Server(
        uvicorn.Config(application, port=0, log_level="error", lifespan="off")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/fhir/"
    finally:
        server.should_exit = True
        thread.join(5)


def test_an_unmodified_client_runs_against_the_served_record(
    benchmark: SyntheticBenchmark,
) -> None:
    """What the benchmark's own client does.

    A start check, then GETs with &_format=json, doubled slashes and all.
    """
    with (
        Store.open(benchmark.store, "hapi") as store,
        serve_record(store, WriteMode.READ_ONLY) as base,
    ):
        assert _fetched(f"{base}metadata")["resourceType"] == "CapabilityStatement"
        bundle = _fetched(
            f"{base}/Observation?patient={ONE}&code=MG&_count=5000&_format=json"
        )
        assert len(bundle["entry"]) == 3
        assert bundle["entry"][0]["resource"]["code"]["text"] == "MG"
        absent = _fetched(
            f"{base}Observation?patient=S9000007&code=MG&_count=5000&_format=json"
        )
        assert absent["total"] == 0
        assert "entry" not in absent
        with pytest.raises(urllib.error.HTTPError, match="400"):
            _fetched(f"{base}Patient?foot=left&_format=json")


def test_a_server_is_acted_on_and_graded_like_a_store(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    with (
        Store.open(benchmark.store, "hapi") as store,
        serve_record(store, WriteMode.READ_ONLY) as base,
    ):
        arguments = (
            "--record",
            base,
            *policy.arguments,
            "--out",
            str(tmp_path / "run"),
            "--quiet",
        )
        assert archqa("predict", str(benchmark.tasks), *arguments).returncode == 0
        assert (
            scored(str(tmp_path / "run"), "--record", base)["scores"]["success_rate"]
            == 100
        )
        overall = json.loads((tmp_path / "run" / "overall.json").read_text())
        assert overall["custom"]["success rate"] == 1


def test_what_is_applied_on_a_server_stays_there_and_is_in_the_audit_log(
    benchmark: SyntheticBenchmark, tmp_path: Path, policy: PolicyServer
) -> None:
    out = tmp_path / "run"
    with (
        Overlay.over(Store.open(benchmark.store, "hapi")) as overlay,
        serve_record(overlay, WriteMode.APPLY) as base,
    ):
        arguments = (
            "--record",
            base,
            *policy.arguments,
            "--set",
            "writes=apply",
            "--out",
            str(out),
            "--quiet",
        )
        assert archqa("predict", str(benchmark.tasks), *arguments).returncode == 0
        added = overlay.added()
    audit = [
        json.loads(line) for line in (out / "audit.jsonl").read_text().splitlines()
    ]
    stored = [entry for entry in audit if entry["status"] == 201]
    assert len(added) == len(stored)
    assert {entry["location"].split("/")[1] for entry in stored} == {
        resource["id"] for resource in added
    }
    assert all(entry["evidence"] for entry in stored)


def _fetched(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as reply:
        assert reply.headers["content-type"] == "application/fhir+json"
        content: dict[str, Any] = json.load(reply)
        return content
