"""Combines the votes on a sentence into one probability: a weighted sum in log-odds.

A vote is a probability; its evidence is its distance from `centre` in log-odds. Independent, calibrated voters
would all have weight 1 (Bayes); n voters who only repeat each other 1/n. Without a fit each has the geometric
mean of both, one over the root of n. A missing vote is no evidence.
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
from archqa.safety.private_files import write_private_text
from archqa.safety.storage import storage_errors

ESSENTIAL_SHARE = 121 / 428
"""Share of essential sentences in ArchEHR-QA's dev cases as of v1.4: the prior before any vote."""

Votes = Mapping[str, Mapping[str, float]]
"""Voter → sentence id → that voter's probability that the sentence is essential."""


class Provenance(FrozenModel):
    """The data a combiner was fitted on, and its quality on cases held out of the fit. F1 in percent."""

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
    """Weights that combine votes into one probability; `weights` is empty without a fit.

    `expected_f1` and `mass` are the prior of the selection (`SelectionPrior`).
    """

    schema_version: int = 1
    weights: dict[str, float] = {}
    bias: float = 0.0
    centre: float = 0.0
    expected_f1: float = 0.62
    mass: float = 10.0
    provenance: Provenance = Provenance()

    def has_weight_for(self, voter: str) -> bool:
        """Whether this voter was in the fit; without a fit all voters are equal."""
        return not self.weights or voter in self.weights

    def probabilities(self, votes: Votes, ids: Sequence[str]) -> dict[str, float]:
        """One probability for each of `ids`; 0 for a sentence without votes.

        Voters that were not in the fit are ignored unless there are no others.
        """
        fitted_votes = {}
        for voter, by_sentence in votes.items():
            if self.has_weight_for(voter):
                fitted_votes[voter] = by_sentence
        used_votes = fitted_votes or votes
        return {sentence_id: self._combine(used_votes, sentence_id) for sentence_id in ids}

    def choose(
        self, probabilities: Mapping[str, float], point: str = "f1", threshold: float | None = None
    ) -> frozenset[str]:
        """The set of greatest expected F, or with `threshold` the sentences above it.

        A set is never empty unless there are no sentences. Raises `CallerError` for an unknown `point`.
        """
        ids = list(probabilities)
        values = np.array(list(probabilities.values()), dtype=np.float64)
        if threshold is None:
            prior = SelectionPrior(self.expected_f1, self.mass)
            indices = select_sentences(values, prior, point).tolist()
        else:
            indices = np.flatnonzero(values > threshold).tolist()
            if not indices:
                indices = values.argsort()[-1:].tolist()  # The likeliest sentence, if any.
        return frozenset(ids[index] for index in indices)

    def _combine(self, votes: Votes, sentence_id: str) -> float:
        """The probability of one sentence from the votes on it."""
        stated: dict[str, float] = {}
        for voter, by_sentence in votes.items():
            if sentence_id in by_sentence:
                stated[voter] = by_sentence[sentence_id]
        if not stated:
            return 0.0
        if len(stated) == 1 and not self.weights:
            return next(iter(stated.values()))  # A single voter's probability is used as it is.
        odds = {voter: log_odds(probability) for voter, probability in stated.items()}
        if not self.weights.keys().isdisjoint(stated):
            return self._combine_fitted(odds)
        return _combine_unfitted(list(odds.values()))

    def _combine_fitted(self, odds: Mapping[str, float]) -> float:
        evidence = []
        for voter, value in odds.items():
            evidence.append(self.weights[voter] * (value - self.centre))
        return from_log_odds(self.bias + sum(evidence))


def _combine_unfitted(odds: Sequence[float]) -> float:
    """Combine voters of unknown quality, each with weight one over the root of their number."""
    prior = math.log(ESSENTIAL_SHARE / (1 - ESSENTIAL_SHARE))
    evidence = [value - prior for value in odds]
    return from_log_odds(prior + sum(evidence) / math.sqrt(len(odds)))


UNFITTED = Combiner()
"""Every voter has the same weight."""


def load(path: Path) -> Combiner:
    """Read a combiner. Raises `InputError` if the file is absent or malformed."""
    try:
        return Combiner.model_validate_json(path.read_bytes())
    except OSError as error:
        advice = "Make one: archqa calibrate RUN --out FILE"
        raise InputError(path, [": cannot be read."], advice) from error
    except ValueError as error:
        advice = "Fit it again: archqa calibrate RUN --out FILE"
        raise InputError(path, [": is not a combiner."], advice) from error


def file_sha256(path: Path) -> str:
    """The SHA-256 of a combiner's file. Raises `InputError` if it is absent or malformed."""
    load(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def save(combiner: Combiner, path: Path) -> None:
    """Write a combiner, replacing an earlier file in one step."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_text(path, combiner.model_dump_json(indent=1) + "\n")
