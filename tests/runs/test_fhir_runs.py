"""Runs on questions of FHIR-AgentBench: predict, resume, submission, failures, servers."""

import csv
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archqa.core.question import RecordQuestion
from archqa.errors import CallerError, InputError
from archqa.evaluation.scoring import score
from archqa.fhir import FhirService, Store
from archqa.fhir.server.application import FhirApplication
from archqa.llm.scripted import ScriptedModel
from archqa.runs.export import export
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.settings import load_settings
from archqa.tasks import find, load_cases
from tests.fakes.replies import tool_call_reply
from tests.fakes.server import FakeServer
from tests.runs.fhir_questions import (
    PUBLISHED_PIPELINES,
    VISITS,
    ids_of_patient,
    question_rows,
    read_submission,
    run_embedded,
    write_csv,
)


def test_a_question_file_becomes_a_submission_and_a_score(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    run = run_embedded(questions, record, tmp_path / "run")
    assert run.manifest.task == "fhir-agentbench"
    assert run.manifest.pipeline == "embedded"
    visits, gender, drug = read_submission(run)
    assert visits["question_id"] == "q1"
    assert visits["agent_answer"] == str(len(VISITS))
    assert sorted(visits["agent_fhir_resources"]["Encounter"]) == sorted(VISITS)
    assert gender["cited_fhir_resources"] == {"Patient": ["p"]}
    assert drug["error"] or drug["agent_answer"] in {"No", "no answer"}
    scores = score(run.path, key=questions).scores.scores
    assert scores["answer_correctness"] >= 2 / 3
    assert scores["recall"] == scores["cited_recall"] == 1.0


def test_an_exported_table_has_the_evidence_of_questions_on_a_record(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    run = run_embedded(questions, record, tmp_path / "run")
    rows = list(csv.DictReader(io.StringIO(export(run.path, "csv"))))
    evidence = {row["case_id"]: row["evidence"] for row in rows}
    assert evidence["q2"] == "['Patient/p']"
    assert all(f"Encounter/{visit}" in evidence["q1"] for visit in VISITS)


def test_a_submissions_record_has_the_benchmarks_fields(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    question_fields = {
        "question_id",
        "question",
        "assumption",
        "question_with_context",
        "patient_fhir_id",
    }
    answer_fields = {
        "agent_answer",
        "agent_fhir_resources",
        "cited_fhir_resources",
        "trace",
        "error",
        "usage",
    }
    for row in read_submission(run_embedded(questions, record, tmp_path / "run")):
        assert set(row) == question_fields | answer_fields
        assert set(row["usage"]) == {
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "cost",
            "llm_calls",
        }


def test_nothing_but_question_patient_and_assumption_reaches_a_pipeline(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    """Other columns blank, filled with text that is no literal, or absent change no prediction."""
    used_columns = {"question_id", "question", "assumption", "patient_fhir_id"}
    whole = read_submission(run_embedded(questions, record, tmp_path / "whole"))
    for name, content in (("blank", ""), ("malformed", "[[not 'a literal")):
        changed_rows = question_rows()
        for row in changed_rows:
            for column in row.keys() - used_columns:
                row[column] = content
        path = write_csv(tmp_path / f"{name}.csv", changed_rows)
        changed = run_embedded(path, record, tmp_path / name)
        assert read_submission(changed) == whole
        assert "lit" not in (changed.path / "input.jsonl").read_text()
    used_rows = []
    for row in question_rows():
        used_rows.append({column: row[column] for column in used_columns})
    path = write_csv(tmp_path / "used.csv", used_rows)
    assert read_submission(run_embedded(path, record, tmp_path / "used")) == whole


def test_csv_json_and_lines_hold_the_same_questions(
    questions: Path, tmp_path: Path
) -> None:
    benchmark = find("fhir-agentbench")
    loaded = load_cases(questions).cases
    as_json = tmp_path / "questions.json"
    as_json.write_text(json.dumps(question_rows()), encoding="utf-8")
    assert load_cases(as_json).cases == loaded
    lines = tmp_path / "questions.jsonl"
    text = "".join(f"{benchmark.dump_line(question)}\n" for question in loaded)
    lines.write_text(text, encoding="utf-8")
    assert tuple(load_cases(lines, task="fhir-agentbench").cases) == loaded
    assert all(isinstance(question, RecordQuestion) for question in loaded)


def test_all_mistakes_of_a_question_file_are_reported_at_once(tmp_path: Path) -> None:
    rows = question_rows()
    rows[1]["patient_fhir_id"] = ""
    rows[2]["question_id"] = "q1"
    with pytest.raises(InputError) as caught:
        load_cases(write_csv(tmp_path / "broken.csv", rows))
    assert len(caught.value.mistakes) == 2
    assert ":3" in caught.value.mistakes[0]


def test_without_a_record_the_run_is_refused_before_anything_is_written(
    questions: Path, tmp_path: Path
) -> None:
    with pytest.raises(CallerError, match="--record"):
        predict(questions, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    declining = predict(questions, out=tmp_path / "declining", pipeline="no-answer")
    answers = [row["agent_answer"] for row in read_submission(declining)]
    assert answers == ["no answer"] * 3


def test_a_stopped_run_resumes_where_it_stopped(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    whole = read_submission(run_embedded(questions, record, tmp_path / "whole"))
    part = run_embedded(questions, record, tmp_path / "part")
    cases_file = part.path / "cases.jsonl"
    first_line = cases_file.read_text().splitlines(keepends=True)[0]
    cases_file.write_text(first_line)
    resumed = run_embedded(questions, record, tmp_path / "part", resume=True)
    assert resumed.complete
    assert read_submission(resumed) == whole


def test_failed_questions_are_submitted_with_their_error_and_the_retrieved_resources(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    retrieve = (
        "get_resources_by_patient_fhir_id",
        {"resource_type": "Encounter", "patient_fhir_id": "p"},
    )
    model = ScriptedModel(
        lambda request: (
            tool_call_reply(*[retrieve] * 300) if request.tools else "never asked"
        )
    )
    settings = load_settings(
        typed={
            "pipeline": "single-turn-retriever",
            "model": "m",
            "base_url": "http://127.0.0.1:9/v1",
        },
        assignments=(f"record={record}", "cache=false"),
    )
    run = predict(questions, out=tmp_path / "run", settings=settings, scripted=model)
    assert run.count(CaseStatus.FAILED) == 3
    for row in read_submission(run):
        assert "Input tokens exceeded: " in row["error"]
        assert sorted(row["agent_fhir_resources"]["Encounter"]) == sorted(
            ids_of_patient("Encounter")
        )
    report = score(run.path, key=questions)
    assert report.scores.scores["answer_correctness"] == 0
    assert report.scores.tables["by_failure"]["context overflow"]["questions"] == 3


@contextmanager
def serve(record: Path) -> Iterator[str]:
    """Serve the record over HTTP on loopback; yield its base URL."""
    uvicorn = pytest.importorskip("uvicorn")
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        Store.open(record) as store,
    ):
        base = f"http://127.0.0.1:{listening.getsockname()[1]}/fhir"
        config = uvicorn.Config(
            FhirApplication(FhirService(store, base)),
            log_level="critical",
            lifespan="off",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        thread.start()
        try:
            yield base
        finally:
            server.should_exit = True
            thread.join(10)


def test_a_record_on_a_server_gives_the_same_answers_as_the_file(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    from_file = read_submission(run_embedded(questions, record, tmp_path / "file"))
    with serve(record) as url:
        from_server = read_submission(
            predict(questions, out=tmp_path / "server", record=url)
        )
    assert from_server == from_file


@pytest.mark.parametrize("pipeline", [*PUBLISHED_PIPELINES, "planner"])
def test_every_agent_ends_every_question_against_a_server(
    questions: Path, record: Path, tmp_path: Path, pipeline: str
) -> None:
    with FakeServer() as server:
        typed = {
            "pipeline": pipeline,
            "model": "fake",
            "base_url": server.base_url,
            "record": str(record),
        }
        run = predict(questions, out=tmp_path / "run", **typed)
        assert server.count >= 3
    assert run.complete
    rows = read_submission(run)
    assert all(row["agent_answer"] is not None or row["error"] for row in rows)
    if pipeline != "planner":
        assert run.count(CaseStatus.ANSWERED) == 3
        assert any(row["agent_fhir_resources"] for row in rows)
        assert all("final answer is" in row["agent_answer"] for row in rows)


@pytest.mark.parametrize(
    "fault",
    ["bad-tool-arguments", "unknown-tool", "arguments-as-object", "no-parallel-tools"],
)
def test_malformed_tool_calls_of_a_server_end_no_run(
    questions: Path, record: Path, tmp_path: Path, fault: str
) -> None:
    with FakeServer(fault) as server:
        typed = {
            "pipeline": "multi-turn-retriever-code",
            "model": "fake",
            "base_url": server.base_url,
        }
        run = predict(questions, out=tmp_path / "run", record=str(record), **typed)
    assert run.count(CaseStatus.ANSWERED) == 3
