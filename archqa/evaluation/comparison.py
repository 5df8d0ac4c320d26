"""Compares two runs of the same cases by paired tests, one for each score."""

from collections.abc import Callable
from pathlib import Path

from archqa.core.id_lists import list_ids
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError, without_suppressed_causes
from archqa.evaluation.scoring import score, scored_run
from archqa.runs.run import Run
from archqa.safety.arguments import as_path
from archqa.tasks.files.mistakes import printable
from archqa.tasks.key_provenance import KeyProvenance
from archqa.tasks.scoring import ScoreSettings
from scoring import PairedDifference, ScoringError
from scoring import compare as compare_scores
from scoring.statistics import METHODS, RESAMPLES

__all__ = ["METHODS", "RESAMPLES", "PairedDifference", "compare_runs"]


@without_suppressed_causes
def compare_runs(
    first: str | Path | Run,
    second: str | Path | Run,
    *,
    key: str | Path | None = None,
    metrics: tuple[str, ...] | None = None,
    method: str = METHODS[0],
    resamples: int = RESAMPLES,
    seed: int = 12345,
    on_key: Callable[[KeyProvenance], None] | None = None,
) -> dict[str, PairedDifference]:
    """Compare two runs of the same cases, score by score, `first` minus `second`.

    method: approximate-randomisation or paired-bootstrap. The adjusted p-values are Holm's over all
    scores that are returned. `on_key` is told what each run was scored against. Raises as `score`
    does, and `CallerError` for runs of different tasks or of different cases.
    """
    if method not in METHODS:
        raise unknown_name("paired test", method, METHODS)
    first = first.path if isinstance(first, Run) else as_path(first, "The first run")
    second = (
        second.path if isinstance(second, Run) else as_path(second, "The second run")
    )
    _check_comparable(first, second)
    # The tests need the counts of each case, not the intervals of each run.
    settings = ScoreSettings(metrics=metrics, bootstrap=0)
    reports = [
        score(run, key=key, settings=settings, keep=False) for run in (first, second)
    ]
    for report in reports:
        if on_key and report.key:
            on_key(report.key)
    scores, rival_scores = (report.scores for report in reports)
    try:
        return compare_scores(scores, rival_scores, method, resamples, seed)
    except ScoringError as error:
        raise CallerError(str(error)) from None


def _check_comparable(first: Path, second: Path) -> None:
    """Raise `CallerError` if the runs are of different tasks or cases."""
    if not (first.is_dir() and second.is_dir()):
        return  # Scores of files are checked once they are there.
    run, rival = scored_run(Run.open(first)), scored_run(Run.open(second))
    if run.task != rival.task:
        raise CallerError(
            f"{first} is a run of {run.task}, {second} of {rival.task}.\n"
            "Compare two runs of the same task."
        )
    problems = []
    for one, other in ((run, rival), (rival, run)):
        others = set(other.ended_ids)
        only = [
            printable(case_id) for case_id in one.ended_ids if case_id not in others
        ]
        if only:
            problems.append(f"{len(only)} only {one.folder} has: {list_ids(only)}")
    if problems:
        sizes = f"{len(run.ended_ids):,} and {len(rival.ended_ids):,} cases"
        raise CallerError(
            f"The runs are not of the same cases ({sizes}); {'; '.join(problems)}.\n"
            "Compare two runs of the same cases, both finished."
        )
