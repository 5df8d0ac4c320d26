"""The organisers' command line (`python -m scoring`), without their dependencies.

`--task` chooses the script: that of 2025, or the one of a subtask of 2026. It refuses the same
files and writes the same leaderboard JSON (`--out_file_path scores.json`).
`scores.about.json` has the signatures, the intervals, the missing scores, and the SHA-256 of all
input files. Exit code 3 when a file is refused.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
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
from .submission import read_submission
from .tasks import archehr2025, archehr2026

TASKS = (archehr2025.TASK, *archehr2026.SUBTASKS)
DIAGNOSTICS = ("question_overlap", "line_support")


def main(arguments: Sequence[str] | None = None) -> int:
    """Score a submission; return 0, or 3 when a file is refused, with the reason on stderr.

    A wrong call ends the program with exit code 2.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.task == archehr2025.TASK and options.case_ids_to_score:
        parser.error(
            "--case_ids_to_score is a flag of 2026; name its subtask with --task"
        )
    try:
        if options.task == archehr2025.TASK:
            if options.data_path is None:
                raise ScoringError("ArchEHR-QA 2025 needs --data_path archehr-qa.xml.")
            submission = read_json(options.submission_path)
            references = load_references_2025(options.data_path, options.key_path)
            _raise_first(archehr2025.refusals(submission, references))
            scores = archehr2025.score(
                submission,
                references,
                reference_order=options.reference_order,
                **_models(options),
            )
        else:
            scores = _score_2026(options)
    except ScoringError as error:
        print(error, file=sys.stderr)
        return 3
    for warning in scores.warnings:
        print(f"note: {warning}", file=sys.stderr)
    for name, reason in scores.missing.items():
        print(f"note: {name} is missing: {reason}", file=sys.stderr)
    leaderboard = dict(scores.scores)
    for name in DIAGNOSTICS:
        leaderboard.pop(name, None)
    if options.out_file_path:
        fingerprints = {}
        for name in ("submission", "key", "data"):
            path = getattr(options, f"{name}_path")
            if path:
                fingerprints[name] = fingerprint(path)
        about = {**scores.as_json(), "sha256": fingerprints}
        _write(options.out_file_path, leaderboard)
        _write(options.out_file_path.with_suffix(".about.json"), about)
    print(json.dumps(leaderboard, indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scoring", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--submission_path", type=Path, required=True, help="submission JSON"
    )
    parser.add_argument(
        "--key_path",
        type=Path,
        required=True,
        help="archehr-qa_key.json (2026 subtask 1: the XML)",
    )
    parser.add_argument(
        "--data_path",
        type=Path,
        help="archehr-qa.xml (2025 and 2026 subtask 3 need it)",
    )
    parser.add_argument(
        "--quickumls_path", type=Path, help="folder of a QuickUMLS index, for MEDCON"
    )
    parser.add_argument(
        "--out_file_path", type=Path, help="where to write the leaderboard JSON"
    )
    parser.add_argument("--alignscore_path", type=Path, help="AlignScore-base.ckpt")
    parser.add_argument(
        "--bertscore_model",
        type=Path,
        help="folder of an encoder; other than the official: a stand-in",
    )
    parser.add_argument(
        "--reference_order",
        default="note",
        help="note (reproducible) or hash:SEED (as published)",
    )
    parser.add_argument(
        "--case_ids_to_score",
        nargs="+",
        default=[],
        help="2026: ids and ranges, as in 121-167 5 7-9",
    )
    parser.add_argument(
        "--task",
        choices=TASKS,
        default=TASKS[0],
        help="which of the organisers' scripts",
    )
    return parser


def _score_2026(options: argparse.Namespace) -> Scores:
    subtask = archehr2026.SUBTASKS[options.task]
    if subtask == 3 and options.data_path is None:
        need = "needs --data_path archehr-qa.xml: the source of SARI is the patient's narrative"
        raise ScoringError(f"Subtask 3 of ArchEHR-QA 2026 {need}.")
    references = load_references_2026(options.data_path, options.key_path)
    submission = read_json(options.submission_path)
    if options.case_ids_to_score:
        read_submission(submission, "prediction", object)
        case_ids = set(parse_case_range(options.case_ids_to_score))
        not_scored = {case.case_id for case in references} - case_ids
        references = [case for case in references if case.case_id in case_ids]
        submission = [row for row in submission if row["case_id"] not in not_scored]
    _raise_first(archehr2026.refusals(submission, references, subtask))
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


def _raise_first(refusals: Iterator[str]) -> None:
    """Raise the first error of the organisers' script, if there is one."""
    for refusal in refusals:
        raise ScoringError(refusal)


def _write(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2)
    path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
