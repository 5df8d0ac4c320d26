"""FHIR-AgentBench's own evaluation files (`output_eval/`).

One record a question in `…_eval.json`, and rows appended to `performance_summary.csv` next to it.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archqa.safety.text import formula_free
from archqa.tasks.fhir_agentbench.cases import FhirQuestion
from archqa.tasks.official_files import unwritable, write_official_text
from archqa.tasks.scoring import Submission
from scoring import Scores
from scoring.fhir_answers import final_answer_text, parse_values, states_no_answer
from scoring.tasks.fhir_agentbench import NO_ANSWER

_SUMMARY_COLUMNS = (
    "date", "input_file", "output_eval_file", "fhir_resource_type", "questions", "precision", "recall", "f1_score",
    "accuracy",
)  # fmt: skip
_SUMMARY_SCORES = ("precision", "recall", "f1", "answer_correctness")
_COPIED_FIELDS = ("question_with_context", "agent_answer", "trace", "usage")


def write_evaluation(
    path: Path, scores: Scores, submission: Submission, questions: Sequence[FhirQuestion]
) -> None:
    """Write the evaluation file, readable by its owner only, and append to its summary.

    `agent_answer_normalized` is by our rules, where the benchmark asks a model. Scores that were
    not computed are null.
    """
    records = list(_records(scores, submission, questions))
    text = json.dumps(records, ensure_ascii=False, indent=2)
    write_official_text(path, text + "\n")
    summary = list(_summary(path, scores, submission))
    _append(path.with_name("performance_summary.csv"), summary)


def _records(
    scores: Scores, submission: Submission, questions: Sequence[FhirQuestion]
) -> Iterator[dict[str, Any]]:
    rows = {str(row["question_id"]): row for row in submission.rows}
    for index, question in enumerate(questions):
        row = rows.get(question.question_id, {})
        copied_fields = {name: row.get(name) for name in _COPIED_FIELDS}
        has_answer = bool(question.true_fhir_ids)
        yield {
            "question_id": question.question_id,
            "question": question.question,
            "assumption": question.assumption,
            "true_answer": question.true_answer,
            **copied_fields,
            "answer_correctness": _correctness(scores, index),
            "true_answer_extracted": question.true_answer if has_answer else NO_ANSWER,
            "agent_answer_normalized": _normalised(row.get("agent_answer")),
            "precision": _value_if_defined(scores, "precision", index, 0),
            "recall": _value_if_defined(scores, "recall", index, 2),
            "true_fhir_resource_types": sorted(question.true_fhir_ids),
            "template": question.template,
        }


def _correctness(scores: Scores, index: int) -> int | None:
    if "answer_correctness" not in scores.tallies:
        return None
    tally = scores.tallies["answer_correctness"][index]
    return int(tally[0])


def _value_if_defined(scores: Scores, name: str, index: int, column: int) -> float | None:
    """One question's precision or recall; None where the benchmark excludes it from the mean."""
    if name not in scores.tallies:
        return None
    tally = scores.tallies[name][index]
    value, is_defined = tally[column : column + 2]
    if not is_defined:
        return None
    return float(value)


def _normalised(reply: Any) -> str:
    if reply is None:
        return NO_ANSWER
    if isinstance(reply, str):
        text = final_answer_text(reply)
        if states_no_answer(text) or parse_values(text) == []:
            return NO_ANSWER
    return "question answered"


def _summary(path: Path, scores: Scores, submission: Submission) -> Iterator[list[Any]]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    overall: dict[str, float] = {"questions": scores.cases, **scores.scores}
    rows_by_type = {"Overall": overall, **scores.tables["by_resource_type"]}
    for resource_type, row in rows_by_type.items():
        values = [row.get(name, "") for name in _SUMMARY_SCORES]
        yield [
            now,
            formula_free(submission.path.name),
            formula_free(path.name),
            formula_free(resource_type),
            int(row["questions"]),
            *values,
        ]


def _append(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    try:
        is_new = not path.is_file() or not path.stat().st_size
        with path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(_SUMMARY_COLUMNS)
            writer.writerows(rows)
    except OSError as error:
        raise unwritable(path, error) from None
