"""The key made of reviews: the labels that reviewers agree on or that somebody adjudicated.

[{"case_id", "answers": [{"sentence_id", "relevance"}], "clinician_answer",
  "review": {"reviewers", "runs", "run_versions", "at", "blind", "disagreements"}}]
"""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from archqa.review.event import ReviewEvent, sentence_of
from archqa.review.state import CaseReviews, CaseSetReviews
from archqa.safety.files import storage_errors, write_private_text


class WrittenKey(NamedTuple):
    """A key and its cases: how many sentences it labels, and how many were left out as disputed."""

    path: Path
    cases_path: Path
    cases: int
    sentences: int
    disagreements: int


def write_key(reviews: CaseSetReviews, path: Path, cases_path: Path) -> WrittenKey | None:
    """Write the key of these reviews; None, and no key of reviews remains, if it labels nothing."""
    rows = [row for row in map(_row, reviews.cases) if row["answers"]]
    with storage_errors(path):
        _keep_other_key(path)
        if not rows:
            path.unlink(missing_ok=True)
            return None
        write_private_text(path, json.dumps(rows, ensure_ascii=False, indent=1))
    return WrittenKey(
        path=path,
        cases_path=cases_path,
        cases=len(rows),
        sentences=sum(len(row["answers"]) for row in rows),
        disagreements=sum(_disputed_sentences(case) for case in reviews.cases),
    )


def _row(case: CaseReviews) -> dict[str, Any]:
    answers = []
    sources: list[ReviewEvent] = []
    for field, _ in case.fields:
        decided = case.decided(field)
        sentence_id = sentence_of(field)
        if sentence_id and decided:
            answers.append({"sentence_id": sentence_id, "relevance": decided.value})
            sources += [*case.events_by_reviewer(field).values(), decided]
    row: dict[str, Any] = {"case_id": case.case_id, "answers": answers}
    better_answer = case.decided("better_answer")
    if better_answer:
        row["clinician_answer"] = better_answer.value
        sources += [*case.events_by_reviewer("better_answer").values(), better_answer]
    row["review"] = _provenance(sources, _disputed_sentences(case))
    return row


def _provenance(sources: Sequence[ReviewEvent], disagreements: int) -> dict[str, Any]:
    """Who said what the row holds, when, and which runs' answers they had before them."""
    sighted = [event for event in sources if not event.blind]
    last = max((event.at for event in sources), default=None)
    return {
        "reviewers": sorted({event.reviewer for event in sources}),
        "runs": sorted({event.run for event in sighted if event.run}),
        "run_versions": sorted({event.run_version for event in sighted if event.run_version}),
        "at": _shown_time(last),
        "blind": not sighted,
        "disagreements": disagreements,
    }


def _shown_time(time: datetime | None) -> str:
    return time.isoformat(timespec="seconds") if time else ""


def _disputed_sentences(case: CaseReviews) -> int:
    disputed = [disagreement for disagreement in case.disagreements if disagreement.is_open]
    return sum(sentence_of(disagreement.field) is not None for disagreement in disputed)


def _keep_other_key(path: Path) -> None:
    """Move a key away that was not made from the log: it may hold labels that nobody set."""
    if path.is_file() and not _is_key_of_reviews(path):
        path.replace(_free_name(path))


def _free_name(path: Path) -> Path:
    name = path.with_name(f"{path.stem}.before-reviews.json")
    number = 2
    while name.exists():
        name = path.with_name(f"{path.stem}.before-reviews-{number}.json")
        number += 1
    return name


def _is_key_of_reviews(path: Path) -> bool:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    if not isinstance(rows, list):
        return False
    reviews = [row.get("review") if isinstance(row, dict) else None for row in rows]
    return all(isinstance(review, dict) and "reviewers" in review for review in reviews)
