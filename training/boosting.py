"""Fitting of gradient-boosted trees for binary labels: logistic loss, histograms, few leaves.

After Friedman (2001) and Chen and Guestrin (2016): each tree takes one Newton step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.engine.answer_linking import LEAF, Forest, Tree

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class BoostingSettings(NamedTuple):
    """How trees are grown; the fractions are of rows and columns sampled for each tree."""

    trees: int = 150
    learning_rate: float = 0.04
    max_leaves: int = 10
    min_rows_per_leaf: int = 25
    row_fraction: float = 0.8
    column_fraction: float = 0.3
    ridge: float = 5.0
    max_bins: int = 48


class Split(NamedTuple):
    """A split of a node at the upper edge of a bin; gain 0 where there is none."""

    gain: float
    column: int
    bin: int


class Leaf(NamedTuple):
    """A node that may still be split, the indices of its rows, and its best split."""

    node: int
    rows: Indices
    split: Split


class Gradients(NamedTuple):
    """The derivatives of the loss by the log-odds of every row, both of shape (rows,)."""

    gradient: Floats
    hessian: Floats


def fit_boosted_trees(
    rows: Floats,
    labels: Floats,
    settings: BoostingSettings,
    seed: int,
) -> tuple[float, tuple[Tree, ...]]:
    """Return the log-odds of the mean label, and the trees whose steps are added to it.

    `rows` is of shape (rows, columns), `labels` of 0 and 1.
    """
    rng = np.random.default_rng(seed)
    edges = []
    binned_columns = []
    for column in rows.T:
        column_edges = _bin_edges(column, settings.max_bins)
        edges.append(column_edges)
        binned_columns.append(np.searchsorted(column_edges, column))
    binned = np.column_stack(binned_columns)
    mean_label = labels.mean()
    bias = float(np.log(mean_label / (1 - mean_label)))
    logits = np.full(len(rows), bias)
    trees = []
    for _ in range(settings.trees):
        gradients = _gradients(logits, labels)
        tree = _TreeGrower(binned, edges, gradients, settings, rng).grow()
        logits += Forest((tree,)).path_contributions(rows).sum(1)
        trees.append(tree)
    return bias, tuple(trees)


def _gradients(logits: Floats, labels: Floats) -> Gradients:
    probabilities = 1 / (1 + np.exp(-logits))
    gradient = probabilities - labels
    hessian = probabilities * (1 - probabilities)
    return Gradients(gradient, hessian)


class _TreeGrower:
    """Grows one tree, always splitting the leaf with the highest gain."""

    def __init__(
        self,
        binned: Indices,
        edges: list[Floats],
        gradients: Gradients,
        settings: BoostingSettings,
        rng: np.random.Generator,
    ) -> None:
        self._binned = binned
        self._edges = edges
        self._gradient, self._hessian = gradients
        self._settings = settings
        rows, columns = binned.shape
        sampled_columns = max(1, round(settings.column_fraction * columns))
        self._columns = np.sort(rng.choice(columns, sampled_columns, replace=False))
        sampled_rows = round(settings.row_fraction * rows)
        self._rows = np.sort(rng.choice(rows, sampled_rows, replace=False))
        self._nodes: list[list[float]] = []

    def grow(self) -> Tree:
        leaves = [self._add_leaf(self._rows)]
        self._nodes[0][4] = 0.0  # contributions on a path must sum to the leaf's step
        while len(leaves) < self._settings.max_leaves:
            best = max(leaves, key=lambda leaf: leaf.split.gain)
            if best.split.gain <= 0:
                break
            leaves.remove(best)
            leaves += self._split(best)
        column, threshold, left, right, value = zip(*self._nodes, strict=True)
        return Tree(
            column=tuple(map(int, column)),
            threshold=tuple(threshold),
            left=tuple(map(int, left)),
            right=tuple(map(int, right)),
            value=tuple(value),
        )

    def _split(self, leaf: Leaf) -> list[Leaf]:
        column, edge_bin = leaf.split.column, leaf.split.bin
        goes_left = self._binned[leaf.rows, column] <= edge_bin
        left = self._add_leaf(leaf.rows[goes_left])
        right = self._add_leaf(leaf.rows[~goes_left])
        threshold = float(self._edges[column][edge_bin])
        self._nodes[leaf.node][:4] = [column, threshold, left.node, right.node]
        return [left, right]

    def _add_leaf(self, rows: Indices) -> Leaf:
        hessian = self._hessian[rows].sum() + self._settings.ridge
        newton_step = -self._gradient[rows].sum() / hessian
        step = float(newton_step * self._settings.learning_rate)
        self._nodes.append([LEAF, 0.0, -1.0, -1.0, step])
        return Leaf(len(self._nodes) - 1, rows, self._best_split(rows))

    def _best_split(self, rows: Indices) -> Split:
        """Find the split of highest gain over all sampled columns by cumulated histograms."""
        gradient = self._cumulated_histogram(rows, self._gradient)
        hessian = self._cumulated_histogram(rows, self._hessian)
        count = self._cumulated_histogram(rows, np.ones(len(self._gradient)))
        total_gradient = gradient[:, -1:]
        total_hessian = hessian[:, -1:]
        gain = self._score(gradient, hessian)
        gain += self._score(total_gradient - gradient, total_hessian - hessian)
        gain -= self._score(total_gradient, total_hessian)
        gain[self._is_too_small(count)] = 0.0
        column, edge_bin = np.unravel_index(int(gain.argmax()), gain.shape)
        return Split(
            gain=float(gain[column, edge_bin]),
            column=int(self._columns[column]),
            bin=int(edge_bin),
        )

    def _cumulated_histogram(self, rows: Indices, weight: Floats) -> Floats:
        """Sum the weights of rows up to each bin, of shape (sampled columns, bins)."""
        bins = self._settings.max_bins
        columns = len(self._columns)
        column_start = np.arange(columns) * bins
        cell = self._binned[np.ix_(rows, self._columns)] + column_start
        repeated = np.repeat(weight[rows], columns)
        histogram = np.bincount(cell.ravel(), repeated, columns * bins)
        cumulated: Floats = histogram.reshape(columns, bins).cumsum(1)
        return cumulated

    def _is_too_small(self, count: Floats) -> NDArray[np.bool_]:
        """Whether a split leaves too few rows on either side, of the shape of `count`."""
        total = count[:, -1:]
        # A side without rows is too small even where the minimum is 0.
        min_rows = min(self._settings.min_rows_per_leaf, len(self._rows) // 10)
        min_rows = max(min_rows, 1)
        left_too_small: NDArray[np.bool_] = count < min_rows
        right_too_small: NDArray[np.bool_] = total - count < min_rows
        return left_too_small | right_too_small

    def _score(self, gradient: Floats, hessian: Floats) -> Floats:
        return gradient**2 / (hessian + self._settings.ridge)


def _bin_edges(column: Floats, max_bins: int) -> Floats:
    """Return the edges of at most `max_bins` bins: midway between values, or at quantiles."""
    values = np.unique(column)
    midpoints = (values[1:] + values[:-1]) / 2
    if len(midpoints) < max_bins:
        return midpoints
    quantiles = np.linspace(0, 1, max_bins + 1)[1:-1]
    edges: Floats = np.unique(np.quantile(column, quantiles))
    return edges
