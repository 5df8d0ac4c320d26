"""Scores in the organisers' own files.

ArchEHR-QA: the leaderboard's JSON. FHIR-AgentBench (its `output_eval/`): one record a question in `…_eval.json`, and
rows appended to `performance_summary.csv` beside it. Signatures, intervals, gaps and fingerprints stand in
`….about.json`, since no organiser's file has room for them.
"""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archqa.errors import InputError
from archqa.evaluation.submissions import Submission
from archqa.tasks.fhir_agentbench.cases import FhirQuestion
from scoring import Scores
from scoring.tasks.fhir_agentbench import NO_ANSWER
from scoring.values import final_answer_text, parse_values, states_no_answer

_OURS = frozenset({"question_overlap"})
_SUMMARY = (
    "date", "input_file", "output_eval_file", "fhir_resource_type", "questions", "precision", "recall", "f1_score",
    "accuracy",
)  # fmt: skip
_PASSED_ON = ("question_with_context", "agent_answer", "trace", "usage")


def write_leaderboard(path: Path, scores: Scores) -> None:
    """The scores by their official names, as the leaderboard takes them."""
    content = {name: value for name, value in scores.scores.items() if name not in _OURS}
    _write(path, json.dumps(content, indent=2) + "\n")


def write_evaluation(
    path: Path, scores: Scores, submission: Submission, questions: Sequence[FhirQuestion]
) -> None:
    """FHIR-AgentBench's evaluation file, readable by its owner only, and the rows of its summary.

    `agent_answer_normalized` is by our rules, where the benchmark asks a model. Scores that were not asked for are
    null.
    """
    records = list(_records(scores, submission, questions))
    _write(path, json.dumps(records, ensure_ascii=False, indent=2) + "\n")
    _append(path.with_name("performance_summary.csv"), list(_summary(path, scores, submission)))


def write_score_details(path: Path, content: dict[str, Any]) -> None:
    """All that is known of the scores, beside an official file: `scores.json` → `scores.about.json`."""
    _write(
        path.with_suffix(".about.json"), json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    )


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One JSON object a line, readable by its owner only."""
    _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _records(
    scores: Scores, submission: Submission, questions: Sequence[FhirQuestion]
) -> Iterator[dict[str, Any]]:
    rows = {str(row["question_id"]): row for row in submission.rows}
    for place, question in enumerate(questions):
        row = rows.get(question.question_id, {})
        yield {
            "question_id": question.question_id,
            "question": question.question,
            "assumption": question.assumption,
            "true_answer": question.true_answer,
            **{name: row.get(name) for name in _PASSED_ON},
            "answer_correctness": _first(scores, "answer_correctness", place),
            "true_answer_extracted": question.true_answer if question.true_fhir_ids else NO_ANSWER,
            "agent_answer_normalized": _normalised(row.get("agent_answer")),
            "precision": _defined(scores, "precision", place, 0),
            "recall": _defined(scores, "recall", place, 2),
            "true_fhir_resource_types": sorted(question.true_fhir_ids),
            "template": question.template,
        }


def _first(scores: Scores, name: str, place: int) -> int | None:
    return int(scores.tallies[name][place][0]) if name in scores.tallies else None


def _defined(scores: Scores, name: str, place: int, column: int) -> float | None:
    """One question's precision or recall; None where the benchmark leaves it out of the mean."""
    if name not in scores.tallies:
        return None
    value, defined = scores.tallies[name][place][column : column + 2]
    return float(value) if defined else None


def _normalised(reply: Any) -> str:
    text = final_answer_text(reply) if isinstance(reply, str) else ""
    nothing = reply is None or (
        isinstance(reply, str) and (states_no_answer(text) or parse_values(text) == [])
    )
    return NO_ANSWER if nothing else "question answered"


def _summary(path: Path, scores: Scores, submission: Submission) -> Iterator[list[Any]]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    overall: dict[str, float] = {"questions": scores.cases, **scores.scores}
    for kind, row in {"Overall": overall, **scores.tables["by_resource_type"]}.items():
        numbers = [
            row.get(name, "") for name in ("precision", "recall", "f1", "answer_correctness")
        ]
        yield [now, submission.path.name, path.name, kind, int(row["questions"]), *numbers]


def _append(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    try:
        new = not path.is_file() or not path.stat().st_size
        with path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([_SUMMARY, *rows] if new else rows)
    except OSError as error:
        raise _unwritable(path, error) from None


def _write(path: Path, text: str) -> None:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        # Half a character (a lone surrogate) is written as JSON escapes it.
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        path.chmod(0o600)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        path,
        [f": cannot be written: {error.strerror}."],
        "Name a place that can, with --official-json.",
    )
