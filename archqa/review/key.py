"""The key made of reviews: the labels that reviewers agree on or that somebody adjudicated.

[{"case_id", "answers": [{"sentence_id", "relevance"}], "clinician_answer",
  "review": {"reviewers", "runs", "run_versions", "at", "blind", "disagreements"}}]
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa.review.event import ReviewEvent, field_sentence_id
from archqa.review.state import CaseReviews, CaseSetReviews
from archqa.safety.files import storage_errors, write_private_text


class WrittenKey(NamedTuple):
    """A key: how many sentences it labels, and how many were left out as disputed."""

    path: Path
    cases: int
    sentences: int
    disagreements: int


def write_key(reviews: CaseSetReviews, path: Path) -> WrittenKey | None:
    """Write the key of these reviews; None, and no key of reviews remains, if it labels nothing."""
    rows = []
    sentence_count = 0
    disagreement_count = 0
    for case in reviews.cases:
        row = _key_row(case)
        disagreement_count += row["review"]["disagreements"]
        if row["answers"]:
            sentence_count += len(row["answers"])
            rows.append(row)
    with storage_errors(path):
        # A key that was not made from the log may hold labels that nobody set here.
        if path.is_file() and not _is_key_of_reviews(path):
            number = 1
            old_path = path.with_name(f"{path.stem}.before-reviews.json")
            while old_path.exists():
                number += 1
                old_path = path.with_name(f"{path.stem}.before-reviews-{number}.json")
            path.replace(old_path)
        if not rows:
            path.unlink(missing_ok=True)
            return None
        write_private_text(path, json.dumps(rows, ensure_ascii=False, indent=1))
    return WrittenKey(path, len(rows), sentence_count, disagreement_count)


def _key_row(case: CaseReviews) -> dict[str, Any]:
    answers = []
    sources: list[ReviewEvent] = []
    for field, _ in case.fields:
        decision = case.decision(field)
        sentence_id = field_sentence_id(field)
        if sentence_id and decision:
            answers.append({"sentence_id": sentence_id, "relevance": decision.value})
            sources += [*case.events_by_reviewer(field).values(), decision]
    row: dict[str, Any] = {"case_id": case.case_id, "answers": answers}
    better_answer = case.decision("better_answer")
    if better_answer:
        row["clinician_answer"] = better_answer.value
        sources += [*case.events_by_reviewer("better_answer").values(), better_answer]
    disagreements = 0
    for disagreement in case.disagreements:
        if disagreement.is_open and field_sentence_id(disagreement.field) is not None:
            disagreements += 1
    row["review"] = _provenance(sources, disagreements)
    return row


def _provenance(sources: Sequence[ReviewEvent], disagreements: int) -> dict[str, Any]:
    """Who said what the row holds, when, and which runs' answers they had seen."""
    reviewers, runs, versions = set(), set(), set()
    is_blind = True
    for event in sources:
        reviewers.add(event.reviewer)
        if not event.blind:
            is_blind = False
            runs.add(event.run)
            versions.add(event.run_version)
    last = max((event.at for event in sources), default=None)
    return {
        "reviewers": sorted(reviewers),
        "runs": sorted(runs - {""}),
        "run_versions": sorted(versions - {""}),
        "at": last.isoformat(timespec="seconds") if last else "",
        "blind": is_blind,
        "disagreements": disagreements,
    }


def _is_key_of_reviews(path: Path) -> bool:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    if not isinstance(rows, list):
        return False
    for row in rows:
        review = row.get("review") if isinstance(row, dict) else None
        if not isinstance(review, dict) or "reviewers" not in review:
            return False
    return True
