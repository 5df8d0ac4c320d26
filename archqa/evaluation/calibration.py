"""Fits a combiner on the votes of a finished run and its key, without calling a model."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import archqa
from archqa import tasks
from archqa.errors import CallerError
from archqa.evaluation.stored_votes import labelled_cases, provenance_of
from archqa.panel.calibration import (
    FOLDS,
    SelectionQuality,
    VotedCase,
    evaluate_combiner,
    evaluate_cross_fit,
    fit_combiner,
    restrict_to_voter,
    voter_names,
)
from archqa.panel.combiner import UNFITTED, Combiner, Provenance, save
from archqa.panel.decision import default_for_voters
from archqa.runs.run import Run
from archqa.tasks.key_provenance import KeyProvenance


class Calibration(NamedTuple):
    """A fitted combiner and its quality on held-out cases, compared with no fit and with single voters."""

    combiner: Combiner
    path: Path
    out_of_fold: SelectionQuality
    unfitted: SelectionQuality
    per_voter: dict[str, SelectionQuality]
    key: KeyProvenance

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa calibrate --json` prints."""
        return {
            "combiner": str(self.path),
            "weights": self.combiner.weights,
            "bias": self.combiner.bias,
            "provenance": self.combiner.provenance.model_dump(),
            "cross_fit": self.out_of_fold._asdict(),
            "unfitted": self.unfitted._asdict(),
            "alone": {voter: quality._asdict() for voter, quality in self.per_voter.items()},
            "key": self.key.as_json(),
        }


def calibrate(
    target: Path,
    *,
    key: Path | None = None,
    out: Path | None = None,
    seed: int = 0,
    point: str = "f1",
) -> Calibration:
    """Fit a combiner on a run's votes and write it, by default as `combiner.json` into the run's folder.

    Raises `InputError` for a path that is no run or key, `CallerError` without a key or cases to fit on.
    """
    run = Run.open(target)
    key = key or tasks.find_key(run.manifest.data.path)
    if key is None:
        raise CallerError(
            f"There is no key beside {run.manifest.data.path}.\nName it with --key FILE."
        )
    key_file = tasks.load_key(key)
    cases = labelled_cases(run, key_file.keys)
    if len(cases) < 2:
        raise CallerError(
            "A combiner is fitted on some cases and tried on others: one case is too few."
        )
    prior = default_for_voters(voter_names(cases))
    out_of_fold = evaluate_cross_fit(cases, prior=prior, seed=seed, point=point)
    provenance = _provenance(run, key_file.sha256, cases, out_of_fold, seed)
    fitted = fit_combiner(cases, prior=prior, seed=seed)
    combiner = fitted.model_copy(update={"provenance": provenance})
    path = out or run.path / "combiner.json"
    save(combiner, path)
    unfitted = evaluate_combiner(cases, prior or UNFITTED, point)
    per_voter = {}
    for voter in voter_names(cases):
        voter_cases = restrict_to_voter(cases, voter)
        alone = default_for_voters([voter]) or UNFITTED
        per_voter[voter] = evaluate_combiner(voter_cases, alone, point)
    return Calibration(
        combiner, path, out_of_fold, unfitted, per_voter, provenance_of(key_file, [run])
    )


def _provenance(
    run: Run, key_sha256: str, cases: list[VotedCase], out_of_fold: SelectionQuality, seed: int
) -> Provenance:
    return Provenance(
        run=run.manifest.run,
        data_sha256=run.manifest.data.sha256,
        key_sha256=key_sha256,
        cases=len(cases),
        sentences=sum(len(case.ids) for case in cases),
        folds=min(FOLDS, len(cases)),
        seed=seed,
        cross_fit_f1=round(out_of_fold.f1, 2),
        calibration_error=round(out_of_fold.calibration_error, 4),
        made_by=f"archqa {archqa.__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
