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
from archqa.core.key import ClinicianSentence
from archqa.evidence.boosting import Settings, boost
from archqa.evidence.digest import case_digest
from archqa.evidence.encoder import default_encoder
from archqa.evidence.linking import Linker, Pairs, PairTable, most_similar, pair_table
from archqa.evidence.training import expected_f1

SETTINGS = Settings(trees=150, rate=0.06, leaves=8, least_rows=20, rows=0.8, columns=0.4, ridge=5.0)
SEEDS = 2
MASS = 10.0

Answered = tuple[Case, tuple[ClinicianSentence, ...]]
"""A case whose `answer_sentences` are to be linked, and the same sentences with their gold citations."""


class Example(NamedTuple):
    """A case ready for fitting: its pairs, and 1 where the key links them, of the pairs' shape."""

    case: Case
    table: PairTable
    truth: NDArray[np.float64]

    @property
    def gold(self) -> Pairs:
        """The links of the key."""
        ids, answers = self.case.sentence_ids, self.case.answer_sentences
        return frozenset((answers[one].id, ids[other]) for one, other in np.argwhere(self.truth > 0).tolist())


class Linked(NamedTuple):
    """Micro F1, precision and recall of links in percent, beside the baselines."""

    f1: float
    precision: float
    recall: float
    most_similar_f1: float
    everything_f1: float
    cases: int
    links: int


def prepare(pairs: Sequence[Answered]) -> list[Example]:
    """The pairs of every case that has an answer and links."""
    found = []
    for case, sentences in pairs:
        cited = {each.id: set(each.citations) for each in sentences}
        if case.sentences and case.answer_sentences and any(cited.values()):
            rows = [
                [float(each in cited.get(one.id, ())) for each in case.sentence_ids] for one in case.answer_sentences
            ]
            found.append(Example(case, pair_table(case, default_encoder()), np.array(rows)))
    return found


def train(examples: Sequence[Example], *, seed: int = 0, folds: int = 8) -> Linker:
    """The linker of all examples; what selection expects comes from cross-fit probabilities."""
    held_out = cross_fit(examples, folds=folds, seed=seed)
    whole = np.concatenate([each.reshape(-1) for each in held_out])
    return fit(examples, seed=seed).model_copy(update={"expected_f1": round(expected_f1(whole), 4)})


def cross_fit(
    examples: Sequence[Example], beside: Sequence[Example] = (), *, folds: int, seed: int = 0
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


def fit(examples: Sequence[Example], *, seed: int = 0) -> Linker:
    """Boosted trees over all pairs of the examples."""
    columns = tuple(examples[0].table.columns)
    rows = np.concatenate([each.table.matrix(columns) for each in examples])
    truth = np.concatenate([each.truth.reshape(-1) for each in examples])
    runs = [boost(rows, truth, SETTINGS, seed * SEEDS + run) for run in range(SEEDS)]
    trees = [
        tree.model_copy(update={"value": tuple(one / SEEDS for one in tree.value)}) for _, each in runs for tree in each
    ]
    return Linker(
        columns=columns,
        bias=runs[0][0],
        trees=tuple(trees),
        expected_f1=0.6,
        mass=MASS,
        fitted_on=tuple(case_digest(each.case) for each in examples),
        made_by="archqa.evidence.linking_training",
    )


def assess(examples: Sequence[Example], probabilities: Sequence[NDArray[np.float64]], linker: Linker) -> Linked:
    """How good links chosen from probabilities are, beside the nearest sentence and all pairs."""
    chosen = [linker.links(each.case, said) for each, said in zip(examples, probabilities, strict=True)]
    gold = [each.gold for each in examples]
    near = [most_similar(each.case, each.table) for each in examples]
    hits, picked, total = _counts(chosen, gold)
    return Linked(
        f1=200 * hits / max(picked + total, 1),
        precision=100 * hits / max(picked, 1),
        recall=100 * hits / max(total, 1),
        most_similar_f1=_f1(near, gold),
        everything_f1=200 * total / (sum(each.truth.size for each in examples) + total),
        cases=len(examples),
        links=total,
    )


def _counts(chosen: Sequence[Pairs], gold: Sequence[Pairs]) -> tuple[int, int, int]:
    hits = sum(len(one & other) for one, other in zip(chosen, gold, strict=True))
    return hits, sum(map(len, chosen)), sum(map(len, gold))


def _f1(chosen: Sequence[Pairs], gold: Sequence[Pairs]) -> float:
    hits, picked, total = _counts(chosen, gold)
    return 200 * hits / max(picked + total, 1)


def save(linker: Linker, path: Path) -> None:
    """Writes the linker in one move, numbers to six digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(rounded(linker.model_dump()), separators=(",", ":")) + "\n", encoding="utf-8")
    draft.replace(path)


def rounded(value: Any) -> Any:
    """A JSON value with its numbers to six digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
