"""The organisers' command line (`python -m scoring`), without their dependencies.

It refuses the same files and writes the same leaderboard JSON (`--out_file_path scores.json`).
`scores.about.json` has the signatures, the intervals, the missing scores, and the SHA-256 of all
input files. Exit code 3 when a file is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import ScoringError
from .files import (
    fingerprint,
    load_references_2025,
    load_references_2026,
    parse_case_range,
    read_json,
)
from .scores import Scores
from .submission import parse_answer, read_submission
from .tasks import archehr2025, archehr2026
from .tasks.selection import check_case_coverage

TASKS = (archehr2025.TASK, *archehr2026.SUBTASKS)
DIAGNOSTICS = ("question_overlap", "line_support")


def main(arguments: Sequence[str] | None = None) -> int:
    """Score a submission; return 0, or 3 when a file is refused, with the reason on stderr."""
    options = _parser().parse_args(arguments)
    try:
        scores = _score(options)
    except ScoringError as error:
        print(_official_message(error), file=sys.stderr)
        return 3
    _print_notes(scores)
    leaderboard = dict(scores.scores)
    for name in DIAGNOSTICS:
        leaderboard.pop(name, None)
    if options.out_file_path:
        _write(options.out_file_path, leaderboard)
        _write(options.out_file_path.with_suffix(".about.json"), _about(options, scores))
    print(json.dumps(leaderboard, indent=2))
    return 0


def _print_notes(scores: Scores) -> None:
    for warning in scores.warnings:
        print(f"note: {warning}", file=sys.stderr)
    for name, reason in scores.missing.items():
        print(f"note: {name} is missing: {reason}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scoring", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--submission_path", type=Path, required=True, help="submission JSON")
    parser.add_argument(
        "--key_path", type=Path, required=True, help="archehr-qa_key.json (2026 subtask 1: the XML)"
    )
    parser.add_argument("--data_path", type=Path, help="archehr-qa.xml")
    parser.add_argument(
        "--quickumls_path", type=Path, help="folder of a QuickUMLS index, for MEDCON"
    )
    parser.add_argument("--out_file_path", type=Path, help="where to write the leaderboard JSON")
    parser.add_argument("--alignscore_path", type=Path, help="AlignScore-base.ckpt")
    parser.add_argument(
        "--bertscore_model",
        type=Path,
        help="folder of an encoder; other than the official: a stand-in",
    )
    parser.add_argument(
        "--reference_order", default="note", help="note (reproducible) or hash:SEED (as published)"
    )
    parser.add_argument(
        "--case_ids_to_score",
        nargs="+",
        default=[],
        help="2026: ids and ranges, as in 121-167 5 7-9",
    )
    parser.add_argument("--task", choices=TASKS, default=TASKS[0])
    return parser


def _score(options: argparse.Namespace) -> Scores:
    if options.task == archehr2025.TASK:
        return _score_2025(options)
    return _score_2026(options)


def _score_2025(options: argparse.Namespace) -> Scores:
    if options.data_path is None:
        raise ScoringError("ArchEHR-QA 2025 needs --data_path archehr-qa.xml.")
    submission = read_json(options.submission_path)
    references = load_references_2025(options.data_path, options.key_path)
    _refuse_as_officially(submission, references)
    return archehr2025.score(
        submission,
        references,
        reference_order=options.reference_order,
        **_models(options),
    )


def _score_2026(options: argparse.Namespace) -> Scores:
    case_ids = parse_case_range(options.case_ids_to_score)
    references = load_references_2026(options.data_path, options.key_path, case_ids)
    submission = read_json(options.submission_path)
    subtask = archehr2026.SUBTASKS[options.task]
    return archehr2026.score(
        submission,
        references,
        subtask=subtask,
        on_missing="refuse",
        **_models(options),
    )


def _models(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "quickumls_path": options.quickumls_path,
        "alignscore_path": options.alignscore_path,
        "bertscore_model": options.bertscore_model,
    }


def _refuse_as_officially(submission: Any, references: Sequence[archehr2025.Reference]) -> None:
    """Raise the official error for what the 2025 script refuses.

    It refuses answers without citations, cases that do not match the key, and empty answers.
    """
    answers = [parse_answer(*row) for row in read_submission(submission)]
    for answer in answers:
        if not answer.citations:
            raise ScoringError(f"AssertionError: [case {answer.case_id}]: No citations found.")
    labelled = [reference.case_id for reference in references if reference.labels]
    check_case_coverage([answer.case_id for answer in answers], labelled, "refuse")
    if not all(answer.text for answer in answers):
        raise ScoringError("ZeroDivisionError: float division by zero")


def _official_message(error: ScoringError) -> str:
    message = str(error)
    if message.startswith(("Case IDs in key", "missing set()")):
        return f"ValueError: {message}"
    return message


def _about(options: argparse.Namespace, scores: Scores) -> dict[str, Any]:
    files = {
        "submission": options.submission_path,
        "key": options.key_path,
        "data": options.data_path,
    }
    fingerprints = {}
    for name, path in files.items():
        if path:
            fingerprints[name] = fingerprint(path)
    return {**scores.as_json(), "sha256": fingerprints}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
