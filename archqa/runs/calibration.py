"""What each voter's word is worth, learned from a finished run and its key; nobody is asked again."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import archqa
from archqa import benchmarks
from archqa.errors import CallerError
from archqa.evidence import combining
from archqa.evidence.combiner_fitting import (
    FOLDS,
    Held,
    VotedCase,
    cross_fit_quality,
    fit_combiner,
    of_voter,
    quality_of,
    voters_of,
)
from archqa.evidence.combining import UNFITTED, Combiner, Provenance
from archqa.runs.run import Run
from archqa.runs.votes import with_key


class Calibration(NamedTuple):
    """A fitted combiner, how it does on cases held out, and beside it no fit at all and every voter alone."""

    combiner: Combiner
    path: Path
    held_out: Held
    unfitted: Held
    alone: dict[str, Held]

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa calibrate --json` prints."""
        return {
            "combiner": str(self.path),
            "weights": self.combiner.weights,
            "bias": self.combiner.bias,
            "provenance": self.combiner.provenance.model_dump(),
            "cross_fit": self.held_out._asdict(),
            "unfitted": self.unfitted._asdict(),
            "alone": {voter: held._asdict() for voter, held in self.alone.items()},
        }


def calibrate(
    target: Path, *, key: Path | None = None, out: Path | None = None, seed: int = 0, point: str = "f1"
) -> Calibration:
    """Fit a combiner on a run's votes and write it, by default as `combiner.json` into the run's folder.

    Raises `InputError` for what is no run or no key, `CallerError` where there is no key or nothing to fit on.
    """
    run = Run.open(target)
    key = key or benchmarks.find_key(run.manifest.data.path)
    if key is None:
        raise CallerError(f"There is no key beside {run.manifest.data.path}.\nName it with --key FILE.")
    read = benchmarks.load_key(key)
    cases = with_key(run, read.keys)
    if len(cases) < 2:
        raise CallerError("A combiner is fitted on some cases and tried on others: one case is too few.")
    held = cross_fit_quality(cases, seed=seed, point=point)
    provenance = _provenance(run, read.sha256, cases, held, seed)
    combiner = fit_combiner(cases, seed=seed).model_copy(update={"provenance": provenance})
    path = out or run.path / "combiner.json"
    combining.save(combiner, path)
    alone = {voter: quality_of(of_voter(cases, voter), UNFITTED, point) for voter in voters_of(cases)}
    return Calibration(combiner, path, held, quality_of(cases, UNFITTED, point), alone)


def _provenance(run: Run, key_sha256: str, cases: list[VotedCase], held: Held, seed: int) -> Provenance:
    return Provenance(
        run=run.manifest.run,
        data_sha256=run.manifest.data.sha256,
        key_sha256=key_sha256,
        cases=len(cases),
        sentences=sum(len(case.ids) for case in cases),
        folds=min(FOLDS, len(cases)),
        seed=seed,
        cross_fit_f1=round(held.f1, 2),
        calibration_error=round(held.calibration_error, 4),
        made_by=f"archqa {archqa.__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
