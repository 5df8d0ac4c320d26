"""Linking the sentences of a given answer to the note sentences they rest on (2026, subtask 4).

Every pair of answer sentence and note sentence gets a probability from boosted trees. The features
compare the two by meaning, words, numbers and concepts, and with the pair's rivals and neighbours.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR
from archqa.engine.encoders import SentenceEncoder, default_encoder
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.features import Matrix, rarity
from archqa.errors import InputError
from archqa.notes.sections import sentence_positions, text_without_list_marker
from archqa.terminology.topics import topics_of
from archqa.terminology.words import extract_numbers, stems

LINKER_FILE = DATA_DIR / "links" / "linker.json"
SECTIONS = ("instructions", "followup", "medications", "course", "history")
"""Kinds of sections that have a column."""
MAX_RANK = 10
LEAF = -1
"""The column of a leaf."""

LinkSet = frozenset[tuple[str, str]]
"""Pairs of answer sentence id and note sentence id."""
PairColumn = NDArray[np.float64]
"""One number for every pair, of shape (answer sentences, note sentences)."""


class Tree(FrozenModel):
    """Nodes as parallel lists, the root first; values up to the threshold go left.

    A leaf has column -1. `value` is, for leaves and inner nodes alike, the mean step of its rows.
    """

    column: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]


class Forest:
    """Trees as arrays of shape (trees, nodes), so that all of them are walked at once."""

    def __init__(self, trees: tuple[Tree, ...]) -> None:
        nodes = max((len(tree.column) for tree in trees), default=1)
        shape = (len(trees), nodes)
        self._column: NDArray[np.int64] = np.full(shape, LEAF, dtype=np.int64)
        self._left: NDArray[np.int64] = np.full(shape, LEAF, dtype=np.int64)
        self._right: NDArray[np.int64] = np.full(shape, LEAF, dtype=np.int64)
        self._threshold = np.zeros(shape)
        self._value = np.zeros(shape)
        for index, tree in enumerate(trees):
            used = len(tree.column)
            self._column[index, :used] = tree.column
            self._left[index, :used] = tree.left
            self._right[index, :used] = tree.right
            self._threshold[index, :used] = tree.threshold
            self._value[index, :used] = tree.value

    def path_contributions(self, rows: Matrix) -> Matrix:
        """Return what each column adds to each row in all trees, of the shape of `rows`."""
        contributions = np.zeros(rows.shape)
        row_grid, tree_grid = np.indices((len(rows), len(self._column)))
        row = row_grid.ravel()
        tree = tree_grid.ravel()
        node = np.zeros(len(row), dtype=np.int64)
        while len(row):
            column = self._column[tree, node]
            inner = column != LEAF
            row = row[inner]
            tree = tree[inner]
            node = node[inner]
            column = column[inner]
            goes_left = rows[row, column] <= self._threshold[tree, node]
            left = self._left[tree, node]
            right = self._right[tree, node]
            child = np.where(goes_left, left, right)
            step = self._value[tree, child] - self._value[tree, node]
            np.add.at(contributions, (row, column), step)
            node = child
        return contributions


class Linker(FrozenModel):
    """Boosted trees over the columns of a pair; `expected_f1` and `mass` are selection's prior."""

    schema_version: int = 1
    columns: tuple[str, ...]
    bias: float
    trees: tuple[Tree, ...]
    expected_f1: float
    mass: float
    fitted_on: tuple[str, ...] = ()
    made_by: str = ""

    def probabilities(self, table: "PairFeatures") -> PairColumn:
        """Return the probability of every pair, of shape (answer sentences, note sentences)."""
        contributions = Forest(self.trees).path_contributions(
            table.matrix(self.columns)
        )
        logits = contributions.sum(1) + self.bias
        probabilities: PairColumn = 1 / (1 + np.exp(-np.clip(logits, -40.0, 40.0)))
        return probabilities.reshape(table.shape)

    def select_links(self, case: Case, probabilities: PairColumn) -> LinkSet:
        """Return the set of links of the whole answer with the highest expected F1."""
        prior = SelectionPrior(self.expected_f1, self.mass)
        selected = select_sentences(probabilities.reshape(-1), prior)
        answer_indices, note_indices = np.unravel_index(selected, probabilities.shape)
        links = set()
        for answer_index, note_index in zip(answer_indices, note_indices, strict=True):
            answer = case.answer_sentences[answer_index]
            links.add((answer.id, case.sentence_ids[note_index]))
        return frozenset(links)


class PairFeatures(NamedTuple):
    """Named columns of all pairs of a case."""

    columns: dict[str, PairColumn]

    @property
    def shape(self) -> tuple[int, int]:
        """Answer sentences and note sentences."""
        answers, notes = self.columns["near"].shape
        return answers, notes

    def matrix(self, names: tuple[str, ...]) -> Matrix:
        """Return the named columns as a matrix of shape (pairs, names)."""
        flattened = [self.columns[name].reshape(-1) for name in names]
        return np.column_stack(flattened).astype(np.float64)


def predict_links(case: Case) -> LinkSet:
    """Return the links of a case's answer by the shipped linker.

    The case must have answer sentences and note sentences.
    """
    linker = default_linker()
    table = pair_features(case, default_encoder())
    return linker.select_links(case, linker.probabilities(table))


def pair_features(case: Case, encoder: SentenceEncoder) -> PairFeatures:
    """Return all features of all pairs of a case."""
    answers = [answer.text for answer in case.answer_sentences]
    notes = list(map(text_without_list_marker, case.sentences))
    similarity = _similarity(answers, notes, encoder)
    columns = {"near": similarity}
    columns |= _shared_columns(
        "words", lambda text: frozenset(stems(text)), answers, notes, weighted=True
    )
    columns |= _shared_columns("numbers", extract_numbers, answers, notes)
    columns |= _shared_columns("concepts", topics_of, answers, notes)
    for name in ("near", "words.answer", "concepts.answer"):
        columns |= _standing_columns(name, columns[name])
    columns |= _neighbour_columns("near", similarity)
    columns |= _neighbour_columns("words", columns["words.answer"])
    columns |= _rival_columns(similarity)
    for name, note_column in _note_columns(case, notes).items():
        columns[name] = np.broadcast_to(note_column, similarity.shape)
    answer_lengths = _log_word_counts(answers)
    columns["answer.length"] = np.broadcast_to(
        answer_lengths[:, None], similarity.shape
    )
    columns["answer.sentences"] = np.full(similarity.shape, float(len(answers)))
    return PairFeatures(columns)


def _similarity(
    answers: list[str], notes: list[str], encoder: SentenceEncoder
) -> PairColumn:
    vectors = encoder.encode([*answers, *notes])
    similarity = vectors[: len(answers)] @ vectors[len(answers) :].T
    return similarity.astype(np.float64)


def _note_columns(case: Case, notes: list[str]) -> dict[str, NDArray[np.float64]]:
    """Return the columns that depend on the note sentence alone, of shape (note sentences,)."""
    last_index = max(len(notes) - 1, 1)
    columns = {
        "note.heading": np.zeros(len(notes)),
        "note.length": _log_word_counts(notes),
        "note.position": np.arange(len(notes)) / last_index,
    }
    for section in SECTIONS:
        columns[f"note.{section}"] = np.zeros(len(notes))
    for index, position in enumerate(sentence_positions(case)):
        columns["note.heading"][index] = position.heading
        if position.section in SECTIONS:
            columns[f"note.{position.section}"][index] = 1.0
    return columns


def _log_word_counts(texts: list[str]) -> NDArray[np.float64]:
    return np.log1p([float(len(text.split())) for text in texts])


def _shared_columns(
    kind: str,
    extract_terms: Callable[[str], frozenset[str]],
    answers: list[str],
    notes: list[str],
    *,
    weighted: bool = False,
) -> dict[str, PairColumn]:
    """Return what is shared, and its share of the answer sentence's and of the note sentence's.

    With `weighted`, terms count by their rarity in the note.
    """
    answer_terms = list(map(extract_terms, answers))
    note_terms = list(map(extract_terms, notes))
    weight_of = rarity(note_terms) if weighted else {}
    common = np.zeros((len(answers), len(notes)))
    for row, own_terms in enumerate(answer_terms):
        common[row] = _total_weights(
            [own_terms & terms for terms in note_terms], weight_of
        )
    answer_totals = _total_weights(answer_terms, weight_of)
    note_totals = _total_weights(note_terms, weight_of)
    return {
        f"{kind}.common": common,
        f"{kind}.answer": common / np.maximum(1.0, answer_totals[:, None]),
        f"{kind}.note": common / np.maximum(1.0, note_totals),
    }


def _total_weights(
    term_sets: list[frozenset[str]], weight_of: dict[str, float]
) -> NDArray[np.float64]:
    """Return the sum of weights of each set; a term without a weight counts 1."""
    totals = np.zeros(len(term_sets))
    for index, terms in enumerate(term_sets):
        for term in terms:
            totals[index] += weight_of.get(term, 1.0)
    return totals


def _standing_columns(name: str, column: PairColumn) -> dict[str, PairColumn]:
    """Compare a pair with the pairs of the same answer sentence."""
    best = column.max(1, keepdims=True)
    order = np.argsort(-column, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    mean = column.mean(1, keepdims=True)
    deviation = column.std(1, keepdims=True)
    return {
        f"{name}.z": (column - mean) / (deviation + 1e-6),
        f"{name}.rank": np.minimum(rank, MAX_RANK).astype(np.float64),
        f"{name}.below_best": best - column,
        f"{name}.best": np.broadcast_to(best, column.shape),
    }


def _neighbour_columns(name: str, column: PairColumn) -> dict[str, PairColumn]:
    """Return the column of the note sentences before and after."""
    padded = np.pad(column, ((0, 0), (1, 1)))
    return {f"{name}.before": padded[:, :-2], f"{name}.after": padded[:, 2:]}


def _rival_columns(similarity: PairColumn) -> dict[str, PairColumn]:
    """Compare a pair with the pairs of the same note sentence."""
    best = similarity.max(0, keepdims=True)
    mean = similarity.mean(0, keepdims=True)
    return {"rival.gap": similarity - best, "rival.mean": similarity - mean}


@cache
def default_linker() -> Linker:
    """Return the shipped linker, read once. Raises InputError when it is absent or invalid."""
    try:
        return Linker.model_validate_json(LINKER_FILE.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(
            LINKER_FILE,
            [": is not a linker."],
            "Install archqa again.",
        ) from error
