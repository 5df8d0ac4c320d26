"""How often intervals cover the truth and tests err: `python -m tests.benchmarks.statistics [RUNS]`.

Draws pairs of runs of known quality, 20, 30 and 100 cases each, and prints the tables of
`docs/statistics.md`: coverage of 95 % intervals of the difference, and the share of tests with
p < .05 where nothing differs. About two minutes of one core.
"""

import sys
import time
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from scoring.citations import CitationF1
from scoring.metric import FloatArray
from scoring.statistics import PairedTallies, paired_differences
from scoring.tasks.fhir_agentbench import AnswerCorrectness

SIZES = (20, 30, 100)
RESAMPLES = 1000
GOOD, WORSE = 0.9, 0.4
"""Log odds that an average fact is found."""
NORMAL = NormalDist()
Draw = Callable[[np.random.Generator, int, float, float], PairedTallies]


def main(runs: int = 1500) -> None:
    """Print both tables, of so many pairs of runs a cell."""
    started = time.process_time()
    print(f"{runs} pairs of runs a row, {RESAMPLES} resamples")
    print("| score | cases | percentile | BCa | studentised |")
    for name, draw in DRAWS.items():
        for cases in SIZES:
            shares = coverage(draw, cases, runs)
            print(
                f"| {name} | {cases} | "
                + " | ".join(f"{share:.1f}" for share in shares)
                + " |"
            )
    print("| score | cases | approximate randomisation | paired bootstrap |")
    for name, draw in DRAWS.items():
        for cases in SIZES:
            shares = error_rates(draw, cases, runs)
            print(
                f"| {name} | {cases} | "
                + " | ".join(f"{share:.1f}" for share in shares)
                + " |"
            )
    print(f"{time.process_time() - started:.0f} s of processor")


def micro_f1(
    rng: np.random.Generator, cases: int, first: float, second: float
) -> PairedTallies:
    """Citations: 1 to 12 essential sentences, cases of different difficulty for both runs."""
    gold = 1 + rng.poisson(4, cases)
    ease = rng.normal(0, 0.8, cases)

    def run(quality: float) -> FloatArray:
        share = 1 / (1 + np.exp(-(quality + ease + rng.normal(0, 0.6, cases))))
        found = rng.binomial(gold, share)
        wrong = rng.poisson(4 * (1 - share))
        return np.column_stack([found, wrong, gold - found]).astype(float)

    return PairedTallies(CitationF1(), run(first), run(second))


def accuracy(
    rng: np.random.Generator, cases: int, first: float, second: float
) -> PairedTallies:
    """Answers that are right or wrong, questions of different difficulty for both runs."""
    ease = rng.normal(0, 1.2, cases)

    def run(quality: float) -> FloatArray:
        right = rng.binomial(1, 1 / (1 + np.exp(-(quality + ease))))
        return np.column_stack([right, np.ones(cases)]).astype(float)

    return PairedTallies(AnswerCorrectness(), run(first), run(second))


DRAWS: dict[str, Draw] = {"micro F1": micro_f1, "accuracy": accuracy}


def coverage(draw: Draw, cases: int, runs: int) -> list[float]:
    """Percent of the percentile, BCa and studentised intervals that hold the true difference."""
    truth = observed(draw(np.random.default_rng(0), 2_000_000, GOOD, WORSE))
    rng = np.random.default_rng(cases)
    weights = resample_weights(cases)
    covered = np.zeros(3)
    for _ in range(runs):
        pair = draw(rng, cases, GOOD, WORSE)
        differences = pair.differences(weights @ pair.first, weights @ pair.second)
        test = paired_differences({"score": pair}, resamples=1)["score"]
        intervals = (
            np.quantile(differences, [0.025, 0.975]),
            bca(pair, differences),
            (test.low, test.high),
        )
        covered += [low - 1e-9 <= truth <= high + 1e-9 for low, high in intervals]
    return list(100 * covered / runs)


def error_rates(draw: Draw, cases: int, runs: int) -> list[float]:
    """Percent of tests of equally good runs with p < .05, by both methods."""
    rng = np.random.default_rng(cases)
    errors = np.zeros(2)
    methods = ("approximate-randomisation", "paired-bootstrap")
    for number in range(runs):
        scores = {"score": draw(rng, cases, GOOD, GOOD)}
        for index, method in enumerate(methods):
            test = paired_differences(scores, method, RESAMPLES, seed=number)["score"]
            errors[index] += test.p_value < 0.05
    return list(100 * errors / runs)


def observed(pair: PairedTallies) -> float:
    """The difference of the two scores."""
    return float(pair.differences(pair.first.sum(axis=0), pair.second.sum(axis=0)))


def resample_weights(cases: int) -> FloatArray:
    """How often each case is in each resample."""
    uniform = np.full(cases, 1 / cases)
    return np.random.default_rng(1).multinomial(cases, uniform, RESAMPLES).astype(float)


def bca(pair: PairedTallies, differences: FloatArray) -> FloatArray:
    """The bias-corrected and accelerated interval (Efron 1987); ties count half."""
    below = np.mean(differences < observed(pair) - 1e-9)
    equal = np.mean(np.abs(differences - observed(pair)) <= 1e-9)
    share = float(np.clip(below + equal / 2, 0.001, 0.999))
    bias = NORMAL.inv_cdf(share)
    first = pair.first.sum(axis=0) - pair.first
    second = pair.second.sum(axis=0) - pair.second
    left_out = pair.differences(first, second)
    deviations = left_out.mean() - left_out
    squares = float(np.sum(deviations**2))
    acceleration = float(np.sum(deviations**3)) / (6 * squares**1.5) if squares else 0.0
    levels = []
    for z in (-1.96, 1.96):
        shifted = bias + z
        levels.append(NORMAL.cdf(bias + shifted / (1 - acceleration * shifted)))
    return np.asarray(np.quantile(differences, levels))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
