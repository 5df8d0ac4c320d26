"""Scores of FHIR-AgentBench submissions: the gold itself, all resources, and the baselines."""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.core.question import RecordQuestion
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.fhir import Store
from archqa.tasks.fhir_agentbench.task import FhirQuestion, load_questions
from tests.runs.fhir_questions import question_rows, write_csv


def oracle(question: FhirQuestion) -> dict[str, Any]:
    """Return the submission row that the gold itself would be."""
    resources = {kind: list(ids) for kind, ids in question.true_fhir_ids.items()}
    return {
        "question_id": question.question_id,
        "agent_answer": question.true_answer if resources else "no answer",
        "agent_fhir_resources": resources,
        "cited_fhir_resources": resources,
    }


def assert_perfect(report: ScoreReport) -> None:
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
    submission = tmp_path / "oracle.json"
    submission.write_text(
        json.dumps(
            [oracle(question) for question in load_questions(questions).questions]
        )
    )
    assert_perfect(score(submission, key=questions))


def test_an_oracle_scores_one_on_all_of_dev(shared: Path, tmp_path: Path) -> None:
    key = shared / "fhir" / "fhir-agentbench" / "questions_dev.csv"
    submission = tmp_path / "oracle.json"
    submission.write_text(
        json.dumps([oracle(question) for question in load_questions(key).questions])
    )
    assert_perfect(score(submission, key=key, settings=ScoreSettings(bootstrap=0)))


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
    """Patient 0.0100 is the paper's precision.

    Its Encounter 0.308 includes emergency-department stays that this data lacks.
    """
    import asyncio

    from archqa.agents.agent import RunContext
    from archqa.tasks.fhir_agentbench.pipelines import retrieve_all
    from archqa.tasks.pipeline import PipelineSettings

    key = shared / "fhir" / "fhir-agentbench" / "questions_dev.csv"
    questions = load_questions(key).questions
    result_of_patient = {}
    with Store.open(mimic, "gcp") as store:
        context = RunContext({}, fhir_record=store)
        for patient in {question.patient_fhir_id for question in questions}:
            question = RecordQuestion(id="x", question="?", patient_fhir_id=patient)
            retrieval = retrieve_all(question, context, PipelineSettings())
            result_of_patient[patient] = asyncio.run(retrieval).result.to_json()
    submission = tmp_path / "everything.json"
    with submission.open("w") as file:
        separator = "["
        for question in questions:
            result = result_of_patient[question.patient_fhir_id]
            file.write(separator + json.dumps(_of_gold_types(question, result)))
            separator = ","
        file.write("]")
    scores = score(
        submission,
        key=key,
        settings=ScoreSettings(metrics=("precision", "recall"), bootstrap=0),
    ).scores
    by_type = scores.tables["by_resource_type"]
    assert by_type["{Patient}"]["precision"] == pytest.approx(0.0100, abs=5e-5)
    assert by_type["{Encounter}"]["precision"] == pytest.approx(0.395, abs=5e-4)
    assert scores.scores["recall"] == 1.0


def _of_gold_types(question: FhirQuestion, result: dict[str, Any]) -> dict[str, Any]:
    """Return a submission row with resources of the gold's types only.

    The evaluator reads no others, and all of them would take a gigabyte.
    """
    resources = {}
    for resource_type, ids in result["agent_fhir_resources"].items():
        if resource_type in question.true_fhir_ids:
            resources[resource_type] = ids
    return {
        "question_id": question.question_id,
        "agent_answer": "no answer",
        "agent_fhir_resources": resources,
    }


def test_the_majority_baseline_of_a_template_ignores_the_answer_of_the_question_itself(
    tmp_path: Path,
) -> None:
    template_row = question_rows()[0]
    rows = []
    for number, answer in enumerate(["[[3]]", "[[3]]", "[[3]]", "[[8]]"]):
        row = {"question_id": f"q{number}", "true_answer": answer, "template": "t"}
        rows.append(template_row | row)
    single = {"question_id": "q9", "true_answer": "[[3]]", "template": "single"}
    rows.append(template_row | single)
    key = write_csv(tmp_path / "key.csv", rows)
    submission = tmp_path / "submission.json"
    submission.write_text(json.dumps([{"question_id": "q0", "agent_answer": "3"}]))
    baseline = score(submission, key=key).baselines["majority_per_template"]
    assert baseline["answer_correctness"] == 3 / 5
