"""Which cases of a run have been reviewed, for the tables of cases."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from archqa.report.case_rows import ReviewMark
from archqa.review.store import ReviewStore
from archqa.runs.record import RunManifest


class ReviewMarks(NamedTuple):
    """The marks of a run's cases by id, and how many events they come from."""

    mark: Callable[[str], ReviewMark]
    events: int


def review_marks(store: ReviewStore, manifest: RunManifest, run_name: str) -> ReviewMarks:
    """Return who has said something of each case's note or of this run's answer."""
    reviews = store.reviews(case_set_name(manifest))

    def mark(case_id: str) -> ReviewMark:
        case = reviews.case(case_id)
        reviewers = tuple(name for name in case.reviewers if case.events_of(name, run_name))
        differ = any(item.is_open and item.run in ("", run_name) for item in case.disagreements)
        return ReviewMark(reviewers, differ)

    return ReviewMarks(mark, len(reviews.events))


def case_set_name(manifest: RunManifest) -> str:
    """Return the name of the reviews of a data set: case ids are unique only within one."""
    file_name = Path(manifest.data.path).stem or "cases"
    return f"{file_name}-{manifest.data.sha256[:8]}"
