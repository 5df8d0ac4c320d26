"""Fitting of the linker on cases whose key says what each sentence of the clinician's answer rests on.

Scores are micro F1 over links in percent, as subtask 4 of 2026 counts them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case, case_digest
from archqa.core.key import ClinicianSentence
from archqa.engine.answer_linking import (
    Linker,
    LinkSet,
    PairColumn,
    PairFeatures,
    Tree,
    pair_features,
)
from archqa.engine.encoders import default_encoder
from training.boosting import BoostingSettings, fit_boosted_trees
from training.regression import PSEUDO_SENTENCES, assign_folds, max_expected_f1

BOOSTING_SETTINGS = BoostingSettings(
    trees=150,
    learning_rate=0.06,
    max_leaves=8,
    min_rows_per_leaf=20,
    row_fraction=0.8,
    column_fraction=0.4,
    ridge=5.0,
)
SEEDS = 2
"""Fits with seeds of their own whose mean is the linker."""
UNFITTED_EXPECTED_F1 = 0.6
MADE_BY = "archqa.evidence.linking_training"
"""Provenance in the shipped file; the module's name at the time."""

AnsweredCase = tuple[Case, tuple[ClinicianSentence, ...]]
"""A case with `answer_sentences` to link, and the same sentences with their gold citations."""


class LinkingExample(NamedTuple):
    """A case ready for fitting: the features of its pairs, and 1 for pairs that the key links."""

    case: Case
    table: PairFeatures
    truth: PairColumn

    @property
    def gold(self) -> LinkSet:
        """The links of the key."""
        answers = self.case.answer_sentences
        note_ids = self.case.sentence_ids
        linked_pairs = np.argwhere(self.truth > 0).tolist()
        links = set()
        for answer_index, note_index in linked_pairs:
            links.add((answers[answer_index].id, note_ids[note_index]))
        return frozenset(links)


class LinkingScores(NamedTuple):
    """Micro F1, precision and recall of links in percent, and the F1 of two baselines."""

    f1: float
    precision: float
    recall: float
    most_similar_f1: float
    everything_f1: float
    cases: int
    links: int


class LinkCounts(NamedTuple):
    """Links over all cases: correct, selected, and in the key."""

    hits: int
    selected: int
    gold: int

    @property
    def f1(self) -> float:
        """Micro F1 in percent."""
        return 200 * self.hits / max(self.selected + self.gold, 1)


def build_examples(answered_cases: Sequence[AnsweredCase]) -> list[LinkingExample]:
    """Compute the pairs of every case that has note sentences, an answer and links."""
    examples = []
    for case, clinician_sentences in answered_cases:
        citations = {
            sentence.id: set(sentence.citations) for sentence in clinician_sentences
        }
        has_links = any(citations.values())
        if case.sentences and case.answer_sentences and has_links:
            table = pair_features(case, default_encoder())
            examples.append(LinkingExample(case, table, _gold_matrix(case, citations)))
    return examples


def _gold_matrix(case: Case, citations: dict[str, set[str]]) -> PairColumn:
    matrix = np.zeros((len(case.answer_sentences), len(case.sentences)))
    for row, answer in enumerate(case.answer_sentences):
        cited = citations.get(answer.id, set())
        matrix[row] = [note_id in cited for note_id in case.sentence_ids]
    return matrix


def train(
    examples: Sequence[LinkingExample], *, seed: int = 0, folds: int = 8
) -> Linker:
    """Fit the linker on all examples; selection's prior comes from out-of-fold probabilities."""
    out_of_fold = cross_fit(examples, folds=folds, seed=seed)
    all_probabilities = np.concatenate([matrix.reshape(-1) for matrix in out_of_fold])
    expected_f1 = round(max_expected_f1(all_probabilities), 4)
    return fit(examples, seed=seed).model_copy(update={"expected_f1": expected_f1})


def cross_fit(
    examples: Sequence[LinkingExample],
    *,
    folds: int,
    seed: int = 0,
) -> list[NDArray[np.float64]]:
    """Return the probabilities of every case by a linker fitted without its fold of cases."""
    fold_of_case = assign_folds(len(examples), folds, seed)
    probabilities: list[NDArray[np.float64]] = [np.zeros((0, 0))] * len(examples)
    for fold in range(min(folds, len(examples))):
        in_training = fold_of_case != fold
        training_examples = [
            examples[index] for index in np.flatnonzero(in_training).tolist()
        ]
        linker = fit(training_examples, seed=seed)
        for index in np.flatnonzero(~in_training).tolist():
            probabilities[index] = linker.probabilities(examples[index].table)
    return probabilities


def fit(examples: Sequence[LinkingExample], *, seed: int = 0) -> Linker:
    """Fit boosted trees on all pairs of the examples."""
    columns = tuple(examples[0].table.columns)
    rows = np.concatenate([example.table.matrix(columns) for example in examples])
    labels = np.concatenate([example.truth.reshape(-1) for example in examples])
    bias = 0.0
    trees: list[Tree] = []
    for fit_number in range(SEEDS):
        fit_seed = seed * SEEDS + fit_number
        bias, fitted_trees = fit_boosted_trees(
            rows, labels, BOOSTING_SETTINGS, fit_seed
        )
        trees += map(_averaged, fitted_trees)
    return Linker(
        columns=columns,
        bias=bias,
        trees=tuple(trees),
        expected_f1=UNFITTED_EXPECTED_F1,
        mass=PSEUDO_SENTENCES,
        fitted_on=tuple(case_digest(example.case) for example in examples),
        made_by=MADE_BY,
    )


def _averaged(tree: Tree) -> Tree:
    """Scale the steps of a tree, so that the trees of all seeds add up to their mean."""
    value = tuple(step / SEEDS for step in tree.value)
    return tree.model_copy(update={"value": value})


def evaluate_links(
    examples: Sequence[LinkingExample],
    probabilities: Sequence[NDArray[np.float64]],
    linker: Linker,
) -> LinkingScores:
    """Score the links selected from `probabilities`, the most similar sentence, and all pairs."""
    gold = []
    selected = []
    most_similar = []
    pairs = 0
    for example, case_probabilities in zip(examples, probabilities, strict=True):
        gold.append(example.gold)
        selected.append(linker.select_links(example.case, case_probabilities))
        most_similar.append(most_similar_links(example.case, example.table))
        pairs += example.truth.size
    counts = _count(selected, gold)
    everything = LinkCounts(hits=counts.gold, selected=pairs, gold=counts.gold)
    return LinkingScores(
        f1=counts.f1,
        precision=100 * counts.hits / max(counts.selected, 1),
        recall=100 * counts.hits / max(counts.gold, 1),
        most_similar_f1=_count(most_similar, gold).f1,
        everything_f1=everything.f1,
        cases=len(examples),
        links=counts.gold,
    )


def most_similar_links(case: Case, table: PairFeatures) -> LinkSet:
    """Return the baseline: each answer sentence with the most similar note sentence."""
    nearest = table.columns["near"].argmax(1).tolist()
    links = set()
    for answer, note_index in zip(case.answer_sentences, nearest, strict=True):
        links.add((answer.id, case.sentence_ids[note_index]))
    return frozenset(links)


def _count(selected: Sequence[LinkSet], gold: Sequence[LinkSet]) -> LinkCounts:
    hits = 0
    for links, gold_links in zip(selected, gold, strict=True):
        hits += len(links & gold_links)
    return LinkCounts(
        hits=hits,
        selected=sum(map(len, selected)),
        gold=sum(map(len, gold)),
    )
