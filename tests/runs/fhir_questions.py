"""Three questions of FHIR-AgentBench on a synthetic record, and the file they are in."""

import csv
import json
from pathlib import Path
from typing import Any

from archqa.runs.predict import predict
from archqa.runs.run import Run
from tests.query.invented import random_record

RESOURCES = random_record(3)
NOW = "Assume the current time is 2131-12-31 23:59:00."
PUBLISHED_PIPELINES = (
    "single-turn-request",
    "single-turn-retriever",
    "single-turn-retriever-code",
    "multi-turn-retriever",
    "multi-turn-retriever-code",
)
"""The five agents of the benchmark's paper."""

COLUMNS = (
    "split",
    "question_id",
    "question",
    "sql_query",
    "true_answer",
    "assumption",
    "patient_fhir_id",
    "template",
    "val_dict",
    "proc_query",
    "main_table_name",
    "mappable_to_fhir",
    "true_fhir_ids",
)


def ids_of_patient(resource_type: str, system_ending: str = "") -> list[str]:
    """Return ids of patient p's resources of a type.

    With `system_ending`, only those whose identifier's system ends with it.
    """
    ids = []
    for resource in RESOURCES:
        if resource["resourceType"] != resource_type:
            continue
        if resource["subject"]["reference"] != "Patient/p":
            continue
        if system_ending and not resource["identifier"][0]["system"].endswith(
            system_ending
        ):
            continue
        ids.append(resource["id"])
    return ids


VISITS = ids_of_patient("Encounter", "encounter-hosp")
SEX = next(resource["gender"] for resource in RESOURCES if resource["id"] == "p")
QUESTIONS: tuple[tuple[str, str, dict[str, list[str]], str], ...] = (
    (
        "Count the number of hospital visits of patient 1.",
        f"[[{len(VISITS)}]]",
        {"Encounter": VISITS},
        "visits",
    ),
    (
        "What is the gender of patient 1?",
        f"[['{SEX[0].upper()}']]",
        {"Patient": ["p"]},
        "gender",
    ),
    ("Has patient 1 been prescribed dragon blood?", "[[0]]", {}, "drug"),
)
"""Question, true answer, true resource ids by type, and template."""


def question_rows() -> list[dict[str, str]]:
    """Return the rows of the question file."""
    rows = []
    for number, (question, answer, ids, template) in enumerate(QUESTIONS, start=1):
        row = dict.fromkeys(COLUMNS, "")
        row["split"] = "valid"
        row["question_id"] = f"q{number}"
        row["question"] = question
        row["true_answer"] = answer
        row["assumption"] = NOW
        row["patient_fhir_id"] = "p"
        row["template"] = template
        row["true_fhir_ids"] = repr(ids)
        rows.append(row)
    return rows


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def run_embedded(questions: Path, record: Path, out: Path, **settings: Any) -> Run:
    """Answer the questions with the query grammar, without a model."""
    return predict(questions, out=out, record=str(record), **settings)


def read_submission(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((run.path / "submission.json").read_text())
    return rows
