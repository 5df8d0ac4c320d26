"""Fitting the linker from cases whose key says what each sentence of the clinician's answer rests on.

Scores are micro F1 over links, as subtask 4 of 2026 counts them, in percent.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.case_digest import case_digest
from archqa.core.key import ClinicianSentence
from archqa.engine.answer_linking import (
    Linker,
    LinkSet,
    PairFeatures,
    most_similar_links,
    pair_features,
)
from archqa.engine.evaluation_statistics import max_expected_f1
from archqa.engine.gradient_boosting import BoostingSettings, fit_boosted_trees
from archqa.engine.sentence_encoder import default_encoder

BOOSTING_SETTINGS = BoostingSettings(
    trees=150, rate=0.06, max_leaves=8, min_rows_per_leaf=20, rows=0.8, columns=0.4, ridge=5.0
)
SEEDS = 2
PRIOR_SENTENCES = 10.0

AnsweredCase = tuple[Case, tuple[ClinicianSentence, ...]]
"""A case whose `answer_sentences` are to be linked, and the same sentences with their gold citations."""


class LinkingExample(NamedTuple):
    """A case ready for fitting: its pairs, and 1 where the key links them, of the pairs' shape."""

    case: Case
    table: PairFeatures
    truth: NDArray[np.float64]

    @property
    def gold(self) -> LinkSet:
        """The links of the key."""
        ids, answers = self.case.sentence_ids, self.case.answer_sentences
        return frozenset(
            (answers[one].id, ids[other]) for one, other in np.argwhere(self.truth > 0).tolist()
        )


class LinkingScores(NamedTuple):
    """Micro F1, precision and recall of links in percent, beside the baselines."""

    f1: float
    precision: float
    recall: float
    most_similar_f1: float
    everything_f1: float
    cases: int
    links: int


def build_examples(pairs: Sequence[AnsweredCase]) -> list[LinkingExample]:
    """The pairs of every case that has an answer and links."""
    found = []
    for case, sentences in pairs:
        cited = {each.id: set(each.citations) for each in sentences}
        if case.sentences and case.answer_sentences and any(cited.values()):
            rows = [
                [float(each in cited.get(one.id, ())) for each in case.sentence_ids]
                for one in case.answer_sentences
            ]
            found.append(
                LinkingExample(case, pair_features(case, default_encoder()), np.array(rows))
            )
    return found


def train(examples: Sequence[LinkingExample], *, seed: int = 0, folds: int = 8) -> Linker:
    """The linker of all examples; what selection expects comes from cross-fit probabilities."""
    held_out = cross_fit(examples, folds=folds, seed=seed)
    whole = np.concatenate([each.reshape(-1) for each in held_out])
    return fit(examples, seed=seed).model_copy(
        update={"expected_f1": round(max_expected_f1(whole), 4)}
    )


def cross_fit(
    examples: Sequence[LinkingExample],
    beside: Sequence[LinkingExample] = (),
    *,
    folds: int,
    seed: int = 0,
) -> list[NDArray[np.float64]]:
    """Probabilities of every case by a linker that never saw it; `beside` are examples every fold may see."""
    fold = np.random.default_rng(seed).permutation(np.arange(len(examples)) % folds)
    found: list[NDArray[np.float64]] = [np.zeros((0, 0))] * len(examples)
    for each in range(min(folds, len(examples))):
        seen = [*beside, *(one for at, one in enumerate(examples) if fold[at] != each)]
        linker = fit(seen, seed=seed)
        for at in np.flatnonzero(fold == each).tolist():
            found[at] = linker.probabilities(examples[at].table)
    return found


def fit(examples: Sequence[LinkingExample], *, seed: int = 0) -> Linker:
    """Boosted trees over all pairs of the examples."""
    columns = tuple(examples[0].table.columns)
    rows = np.concatenate([each.table.matrix(columns) for each in examples])
    truth = np.concatenate([each.truth.reshape(-1) for each in examples])
    runs = [
        fit_boosted_trees(rows, truth, BOOSTING_SETTINGS, seed * SEEDS + run)
        for run in range(SEEDS)
    ]
    trees = [
        tree.model_copy(update={"value": tuple(one / SEEDS for one in tree.value)})
        for _, each in runs
        for tree in each
    ]
    return Linker(
        columns=columns,
        bias=runs[0][0],
        trees=tuple(trees),
        expected_f1=0.6,
        mass=PRIOR_SENTENCES,
        fitted_on=tuple(case_digest(each.case) for each in examples),
        made_by="archqa.evidence.linking_training",
    )


def evaluate_links(
    examples: Sequence[LinkingExample], probabilities: Sequence[NDArray[np.float64]], linker: Linker
) -> LinkingScores:
    """How good links chosen from probabilities are, beside the nearest sentence and all pairs."""
    chosen = [
        linker.links(each.case, said) for each, said in zip(examples, probabilities, strict=True)
    ]
    gold = [each.gold for each in examples]
    near = [most_similar_links(each.case, each.table) for each in examples]
    hits, picked, total = _counts(chosen, gold)
    return LinkingScores(
        f1=200 * hits / max(picked + total, 1),
        precision=100 * hits / max(picked, 1),
        recall=100 * hits / max(total, 1),
        most_similar_f1=_f1(near, gold),
        everything_f1=200 * total / (sum(each.truth.size for each in examples) + total),
        cases=len(examples),
        links=total,
    )


def _counts(chosen: Sequence[LinkSet], gold: Sequence[LinkSet]) -> tuple[int, int, int]:
    hits = sum(len(one & other) for one, other in zip(chosen, gold, strict=True))
    return hits, sum(map(len, chosen)), sum(map(len, gold))


def _f1(chosen: Sequence[LinkSet], gold: Sequence[LinkSet]) -> float:
    hits, picked, total = _counts(chosen, gold)
    return 200 * hits / max(picked + total, 1)


def save(linker: Linker, path: Path) -> None:
    """Writes the linker in one move, numbers to six digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(
        json.dumps(rounded(linker.model_dump()), separators=(",", ":")) + "\n", encoding="utf-8"
    )
    draft.replace(path)


def rounded(value: Any) -> Any:
    """A JSON value with its numbers to six digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
