"""Questions of FHIR-AgentBench from the file to the score: predict, resume, submission, failures, baselines."""

import csv
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from archqa.ask.record import ask_record
from archqa.core.question import RecordQuestion
from archqa.errors import CallerError, InputError
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.fhir import FhirService, Store
from archqa.fhir.server.application import FhirApplication
from archqa.llm.scripted import ScriptedModel, tool_call_reply
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.tasks import find, load_cases
from archqa.tasks.fhir_agentbench.cases import FhirQuestion, load_questions
from archqa.tasks.fhir_agentbench.pipelines.published_agents import BENCHMARK_AGENT_NAMES
from tests.fakes.server import FakeServer
from tests.fhir.invented import build_store
from tests.query.invented import random_record

RESOURCES = random_record(3)
NOW = "Assume the current time is 2131-12-31 23:59:00."
COLUMNS = (
    *(
        "split",
        "question_id",
        "question",
        "sql_query",
        "true_answer",
        "assumption",
        "patient_fhir_id",
        "template",
    ),
    *("val_dict", "proc_query", "main_table_name", "mappable_to_fhir", "true_fhir_ids"),
)


def mine(kind: str, ending: str = "") -> list[str]:
    """Ids of the patient's resources of a type, of one kind of encounter where that is named."""
    return [
        each["id"]
        for each in RESOURCES
        if each["resourceType"] == kind
        and each["subject"]["reference"] == "Patient/p"
        and (not ending or each["identifier"][0]["system"].endswith(ending))
    ]


VISITS = mine("Encounter", "encounter-hosp")
SEX = next(each["gender"] for each in RESOURCES if each["id"] == "p")
QUESTIONS: tuple[tuple[str, str, dict[str, list[str]], str], ...] = (
    (
        "Count the number of hospital visits of patient 1.",
        f"[[{len(VISITS)}]]",
        {"Encounter": VISITS},
        "visits",
    ),
    ("What is the gender of patient 1?", f"[['{SEX[0].upper()}']]", {"Patient": ["p"]}, "gender"),
    ("Has patient 1 been prescribed dragon blood?", "[[0]]", {}, "drug"),
)


def rows() -> list[dict[str, str]]:
    return [
        {
            **dict.fromkeys(COLUMNS, ""),
            "split": "valid",
            "question_id": f"q{number}",
            "question": question,
            "true_answer": answer,
            "assumption": NOW,
            "patient_fhir_id": "p",
            "template": template,
            "true_fhir_ids": repr(ids),
        }
        for number, (question, answer, ids, template) in enumerate(QUESTIONS, start=1)
    ]


def write(path: Path, table: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record")
    build_store(folder, RESOURCES).close()
    return folder / "record.db"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write(tmp_path / "questions.csv", rows())


def embedded(questions: Path, record: Path, out: Path, **typed: Any) -> Run:
    return predict(questions, out=out, record=str(record), **typed)


def submission(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run.path / "submission.json").read_text())
    return found


def test_a_question_file_becomes_a_submission_and_a_score(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    run = embedded(questions, record, tmp_path / "run")
    assert run.manifest.task == "fhir-agentbench"
    assert run.manifest.pipeline == "embedded"
    first, second, third = submission(run)
    assert first["question_id"] == "q1"
    assert first["agent_answer"] == str(len(VISITS))
    assert sorted(first["agent_fhir_resources"]["Encounter"]) == sorted(VISITS)
    assert second["cited_fhir_resources"] == {"Patient": ["p"]}
    assert third["error"] or third["agent_answer"] in {"No", "no answer"}
    scores = score(run.path, key=questions).scores.scores
    assert scores["answer_correctness"] >= 2 / 3
    assert scores["recall"] == scores["cited_recall"] == 1.0


def test_a_submissions_record_has_the_benchmarks_fields(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    asked = {"question_id", "question", "assumption", "question_with_context", "patient_fhir_id"}
    given = {
        "agent_answer",
        "agent_fhir_resources",
        "cited_fhir_resources",
        "trace",
        "error",
        "usage",
    }
    for each in submission(embedded(questions, record, tmp_path / "run")):
        assert set(each) == asked | given
        assert set(each["usage"]) == {
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "cost",
            "llm_calls",
        }


def test_nothing_but_question_patient_and_assumption_reaches_a_pipeline(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    """Other columns blanked, or filled with lies that are no literals at all: not one prediction changes."""
    kept = {"question_id", "question", "assumption", "patient_fhir_id"}
    whole = submission(embedded(questions, record, tmp_path / "whole"))
    for name, other in (("blank", ""), ("lies", "[[not 'a literal")):
        table = [
            {key: value if key in kept else other for key, value in row.items()} for row in rows()
        ]
        changed = embedded(write(tmp_path / f"{name}.csv", table), record, tmp_path / name)
        assert submission(changed) == whole
        assert "lit" not in (changed.path / "input.jsonl").read_text()
    only = [{key: value for key, value in row.items() if key in kept} for row in rows()]
    assert (
        submission(embedded(write(tmp_path / "only.csv", only), record, tmp_path / "only")) == whole
    )


def test_csv_json_and_lines_hold_the_same_questions(questions: Path, tmp_path: Path) -> None:
    benchmark = find("fhir-agentbench")
    loaded = load_cases(questions).cases
    as_json = tmp_path / "questions.json"
    as_json.write_text(json.dumps(rows()), encoding="utf-8")
    assert load_cases(as_json).cases == loaded
    lines = tmp_path / "questions.jsonl"
    lines.write_text("".join(f"{benchmark.dump_line(each)}\n" for each in loaded), encoding="utf-8")
    assert tuple(load_cases(lines, task="fhir-agentbench").cases) == loaded
    assert all(isinstance(each, RecordQuestion) for each in loaded)


def test_mistakes_of_a_question_file_are_told_all_at_once(tmp_path: Path) -> None:
    table = rows()
    table[1]["patient_fhir_id"] = ""
    table[2]["question_id"] = "q1"
    with pytest.raises(InputError) as caught:
        load_cases(write(tmp_path / "broken.csv", table))
    assert len(caught.value.mistakes) == 2
    assert ":3" in caught.value.mistakes[0]


def test_without_a_record_the_run_is_refused_before_anything_is_written(
    questions: Path, tmp_path: Path
) -> None:
    with pytest.raises(CallerError, match="--record"):
        predict(questions, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    declining = predict(questions, out=tmp_path / "declining", pipeline="no-answer")
    assert [each["agent_answer"] for each in submission(declining)] == ["no answer"] * 3


def test_a_stopped_run_goes_on_where_it_stopped(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    whole = submission(embedded(questions, record, tmp_path / "whole"))
    part = embedded(questions, record, tmp_path / "part")
    kept = (part.path / "cases.jsonl").read_text().splitlines(keepends=True)[:1]
    (part.path / "cases.jsonl").write_text("".join(kept))
    resumed = embedded(questions, record, tmp_path / "part", resume=True)
    assert resumed.complete
    assert submission(resumed) == whole


def test_failed_questions_are_handed_in_with_their_error_and_what_was_retrieved(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    retrieve = (
        "get_resources_by_patient_fhir_id",
        {"resource_type": "Encounter", "patient_fhir_id": "p"},
    )
    model = ScriptedModel(
        lambda request: tool_call_reply(*[retrieve] * 300) if request.tools else "never asked"
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
    for each in submission(run):
        assert "Input tokens exceeded: " in each["error"]
        assert sorted(each["agent_fhir_resources"]["Encounter"]) == sorted(mine("Encounter"))
    report = score(run.path, key=questions)
    assert report.scores.scores["answer_correctness"] == 0
    assert report.scores.tables["by_failure"]["context overflow"]["questions"] == 3


@contextmanager
def served(record: Path) -> Iterator[str]:
    """The record behind an HTTP server on loopback, for as long as a `with` lasts."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as listening, Store.open(record) as store:
        base = f"http://127.0.0.1:{listening.getsockname()[1]}/fhir"
        config = uvicorn.Config(
            FhirApplication(FhirService(store, base)), log_level="critical", lifespan="off"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield base
        finally:
            server.should_exit = True
            thread.join(10)


def test_a_record_on_a_server_gives_the_same_answers_as_the_file(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    beside = submission(embedded(questions, record, tmp_path / "beside"))
    with served(record) as url:
        far = submission(predict(questions, out=tmp_path / "far", record=url))
    assert far == beside


@pytest.mark.parametrize("pipeline", [*BENCHMARK_AGENT_NAMES, "planner"])
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
    assert all(each["agent_answer"] is not None or each["error"] for each in submission(run))
    if pipeline != "planner":
        assert run.count(CaseStatus.ANSWERED) == 3
        assert any(each["agent_fhir_resources"] for each in submission(run))
        assert all("final answer is" in each["agent_answer"] for each in submission(run))


@pytest.mark.parametrize(
    "fault", ["bad-tool-arguments", "unknown-tool", "arguments-as-object", "no-parallel-tools"]
)
def test_tool_calls_of_a_server_that_errs_are_borne(
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


def oracle(question: FhirQuestion) -> dict[str, Any]:
    """The gold, handed in. For tests alone."""
    resources = {kind: list(ids) for kind, ids in question.true_fhir_ids.items()}
    return {
        "question_id": question.question_id,
        "agent_answer": question.true_answer if resources else "no answer",
        "agent_fhir_resources": resources,
        "cited_fhir_resources": resources,
    }


def perfect(report: ScoreReport) -> None:
    scores = report.scores.scores
    names = (
        "precision",
        "recall",
        "f1",
        "cited_precision",
        "cited_recall",
        "cited_f1",
        "answer_correctness",
    )
    for name in names:
        assert scores[name] == 1.0, name
        if name != "answer_correctness":
            assert scores[f"strict_{name}"] == 1.0, name
    assert report.scores.tables["by_failure"] == {}


def test_an_oracle_scores_one_in_every_form(questions: Path, tmp_path: Path) -> None:
    handed_in = tmp_path / "oracle.json"
    handed_in.write_text(json.dumps([oracle(each) for each in load_questions(questions).questions]))
    perfect(score(handed_in, key=questions))


def test_an_oracle_scores_one_on_all_of_dev(shared: Path, tmp_path: Path) -> None:
    key = shared / "fhir" / "fhir-agentbench" / "questions_dev.csv"
    handed_in = tmp_path / "oracle.json"
    handed_in.write_text(json.dumps([oracle(each) for each in load_questions(key).questions]))
    perfect(score(handed_in, key=key, settings=ScoreSettings(bootstrap=0)))


@pytest.fixture(scope="session")
def mimic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The MIMIC-IV demo as a record, loaded once."""
    from tests.conftest import SHARED

    if not SHARED.is_dir():
        pytest.skip("../shared is not here")
    path = tmp_path_factory.mktemp("mimic") / "record.db"
    with Store.open(path, create=True) as store:
        store.load([SHARED / "fhir" / "mimic-fhir"])
    return path


@pytest.mark.long
def test_retrieving_everything_has_the_papers_precision_on_dev(
    mimic: Path, shared: Path, tmp_path: Path
) -> None:
    """Patient .0100 is the paper's. Its Encounter .308 includes emergency-department stays that this data lacks."""
    import asyncio

    from archqa.agents.agent import RunContext
    from archqa.tasks.fhir_agentbench.baselines import retrieve_all
    from archqa.tasks.pipeline import PipelineSettings

    key = shared / "fhir" / "fhir-agentbench" / "questions_dev.csv"
    asked = load_questions(key).questions
    with Store.open(mimic, "gcp") as store:
        desk = RunContext({}, fhir_record=store)
        found = {
            patient: asyncio.run(
                retrieve_all(
                    RecordQuestion(id="x", question="?", patient_fhir_id=patient),
                    desk,
                    PipelineSettings(),
                )
            ).result.to_json()
            for patient in {each.patient_fhir_id for each in asked}
        }
    gold = {each.question_id: set(each.true_fhir_ids) for each in asked}
    handed_in = tmp_path / "everything.json"
    with handed_in.open("w") as file:
        rows_ = (
            _of_gold_types(each, found[each.patient_fhir_id], gold[each.question_id])
            for each in asked
        )
        file.write("[" + ",".join(map(json.dumps, rows_)) + "]")
    scores = score(
        handed_in, key=key, settings=ScoreSettings(metrics=("precision", "recall"), bootstrap=0)
    ).scores
    by_type = scores.tables["by_resource_type"]
    assert by_type["{Patient}"]["precision"] == pytest.approx(0.0100, abs=5e-5)
    assert by_type["{Encounter}"]["precision"] == pytest.approx(0.395, abs=5e-4)
    assert scores.scores["recall"] == 1.0


def _of_gold_types(
    question: FhirQuestion, result: dict[str, Any], kinds: set[str]
) -> dict[str, Any]:
    """The evaluator looks at the gold's types only; handing in the others would take a gigabyte."""
    resources = {kind: ids for kind, ids in result["agent_fhir_resources"].items() if kind in kinds}
    return {
        "question_id": question.question_id,
        "agent_answer": "no answer",
        "agent_fhir_resources": resources,
    }


def test_the_usual_answer_of_a_template_is_a_baseline_that_does_not_look_at_its_own(
    tmp_path: Path,
) -> None:
    table = [{**rows()[0], "question_id": f"q{number}", "true_answer": answer, "template": "t"}
             for number, answer in enumerate(["[[3]]", "[[3]]", "[[3]]", "[[8]]"])]  # fmt: skip
    table.append({**rows()[0], "question_id": "q9", "true_answer": "[[3]]", "template": "alone"})
    key = write(tmp_path / "key.csv", table)
    handed_in = tmp_path / "s.json"
    handed_in.write_text(json.dumps([{"question_id": "q0", "agent_answer": "3"}]))
    found = score(handed_in, key=key).baselines["majority_per_template"]["answer_correctness"]
    assert found == 3 / 5


def test_one_question_is_answered_on_the_spot_with_verified_citations(record: Path) -> None:
    found = ask_record("Count the number of hospital visits of patient 1.", "Patient/p", record)
    assert found.refusal == ""
    assert str(len(VISITS)) in found.answer
    assert sorted(found.citations["Encounter"]) == sorted(VISITS)
    assert found.verified
    assert found.sentence
    assert len(found.rows) == len(VISITS)


def test_the_present_is_named_only_where_the_question_needs_it(record: Path) -> None:
    ever, lately = (
        ask_record(question, "p", record)
        for question in (
            "Count the number of hospital visits.",
            "Count the number of hospital visits this year.",
        )
    )
    assert "clock" not in ever.sentence
    assert "clock" in lately.sentence
    assert lately.refusal == ""


def test_a_question_that_is_not_understood_is_a_refusal_and_no_guess(record: Path) -> None:
    found = ask_record("Why did the patient prefer tea to coffee?", "p", record)
    assert found.refusal
    assert found.answer == ""
    assert not found.verified


def test_the_planner_answers_on_the_spot_where_a_model_is_set_up(record: Path) -> None:
    query = {"thought": "t", "look_up": [], "query": {"what": "hospital_visit", "summary": "count"}}
    settings = load_settings(
        typed={"model": "m", "base_url": "http://127.0.0.1:9/v1"}, assignments=("cache=false",)
    )
    found = ask_record(
        "How many visits?", "p", record, settings, scripted=ScriptedModel([json.dumps(query)])
    )
    assert found.query == {"what": "hospital_visit", "summary": "count"}
    assert str(len(VISITS)) in found.answer
