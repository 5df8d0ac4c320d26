"""Many votes on a sentence, one probability: votes add up in log-odds, each with the weight its record earned.

A vote is a probability; its evidence is how far it lies from `centre`, in log-odds. Independent, calibrated voters
would all have weight 1 (Bayes); n voters who only repeat each other 1/n. Where nobody's record is known, each has the
geometric mean of both, one over the root of n. A vote that is missing is no evidence.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from archqa.core.probability import from_log_odds, log_odds
from archqa.core.value import FrozenModel
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.errors import InputError

SHARE = 121 / 428
"""Of sentences that are essential: ArchEHR-QA's dev cases as of v1.4. What is believed before any vote."""

Votes = Mapping[str, Mapping[str, float]]
"""Voter to sentence id to the probability, by that voter, that the sentence is essential."""


class Provenance(FrozenModel):
    """What a combiner was fitted on, and how well it did on cases held out of the fit. F1 in percent."""

    run: str = ""
    data_sha256: str = ""
    key_sha256: str = ""
    cases: int = 0
    sentences: int = 0
    folds: int = 0
    seed: int = 0
    cross_fit_f1: float | None = None
    calibration_error: float | None = None
    made_by: str = ""
    made_at: str = ""


class Combiner(FrozenModel):
    """How votes become one probability. `weights` is empty where none was fitted.

    `max_expected_f1` and `mass` serve selection (`selection.Corpus`).
    """

    schema_version: int = 1
    weights: dict[str, float] = {}
    bias: float = 0.0
    centre: float = 0.0
    expected_f1: float = 0.62
    mass: float = 10.0
    provenance: Provenance = Provenance()

    def has_weight_for(self, voter: str) -> bool:
        """Whether this voter's record was seen in the fit; where there was no fit, all are equal."""
        return not self.weights or voter in self.weights

    def probabilities(self, votes: Votes, ids: Sequence[str]) -> dict[str, float]:
        """One probability for each of `ids`; 0 for a sentence that nobody voted on."""
        known = {
            voter: said for voter, said in votes.items() if self.has_weight_for(voter)
        } or votes
        return {
            each: self._one({voter: said[each] for voter, said in known.items() if each in said})
            for each in ids
        }

    def choose(
        self, probabilities: Mapping[str, float], point: str = "f1", threshold: float | None = None
    ) -> frozenset[str]:
        """The set of greatest expected F, or with `threshold` what lies above it; never empty. Raises CallerError."""
        ids, values = list(probabilities), np.array(list(probabilities.values()), dtype=np.float64)
        if threshold is None:
            return frozenset(
                ids[at]
                for at in select_sentences(
                    values, SelectionPrior(self.expected_f1, self.mass), point
                )
            )
        above = frozenset(each for each in ids if probabilities[each] > threshold)
        return above or frozenset(ids[at] for at in values.argsort()[-1:])

    def _one(self, said: Mapping[str, float]) -> float:
        if not said:
            return 0.0
        if len(said) == 1 and len(self.weights) <= 1:
            return next(iter(said.values()))  # One voter: what it says stands.
        odds = {voter: log_odds(one) for voter, one in said.items()}
        if not any(voter in self.weights for voter in said):
            before = math.log(SHARE / (1 - SHARE))
            return from_log_odds(
                before + sum(one - before for one in odds.values()) / math.sqrt(len(odds))
            )
        return from_log_odds(
            self.bias
            + sum(self.weights[voter] * (one - self.centre) for voter, one in odds.items())
        )


UNFITTED = Combiner()
"""Every voter equal: what holds where no record is known."""


def load(path: Path) -> Combiner:
    """The combiner in a file. Raises InputError if it is absent or none."""
    try:
        return Combiner.model_validate_json(path.read_bytes())
    except OSError as absent:
        raise InputError(
            path, [": cannot be read."], "Make one: archqa calibrate RUN --out FILE"
        ) from absent
    except ValueError as malformed:
        raise InputError(
            path, [": is not a combiner."], "Fit it again: archqa calibrate RUN --out FILE"
        ) from malformed


def file_sha256(path: Path) -> str:
    """The sha256 of a combiner's file. Raises InputError if there is none."""
    load(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def save(combiner: Combiner, path: Path) -> None:
    """Writes the combiner in one move."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(combiner.model_dump_json(indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
