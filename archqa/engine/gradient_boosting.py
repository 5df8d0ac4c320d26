"""Gradient-boosted trees, as far as this room needs them: logistic loss, histograms, few leaves; numpy alone.

After Friedman (2001) and Chen and Guestrin (2016): each tree takes one Newton step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import FrozenModel

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]


class Tree(FrozenModel):
    """Nodes as parallel lists, the root first. A leaf has column -1; values up to the threshold go left.

    `value` holds, for leaves and inner nodes alike, the step a row of that node would take on average.
    """

    column: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[float, ...]


class BoostingSettings(NamedTuple):
    """How trees are grown."""

    trees: int = 150
    rate: float = 0.04
    max_leaves: int = 10
    min_rows_per_leaf: int = 25
    rows: float = 0.8
    columns: float = 0.3
    ridge: float = 5.0
    max_bins: int = 48


class Leaf(NamedTuple):
    """A node that may still be split: its rows, and its best split (gain 0 where there is none)."""

    node: int
    rows: Bins
    gain: float
    column: int
    bin: int


def fit_boosted_trees(
    rows: Floats, truth: Floats, settings: BoostingSettings, seed: int
) -> tuple[float, tuple[Tree, ...]]:
    """Log-odds of the mean, and the trees whose steps are added to it. `rows` is (rows, columns), `truth` 0 or 1."""
    rng = np.random.default_rng(seed)
    edges = [_edges(column, settings.max_bins) for column in rows.T]
    binned = np.column_stack(
        [np.searchsorted(edge, column) for edge, column in zip(edges, rows.T, strict=True)]
    )
    bias = float(np.log(truth.mean() / (1 - truth.mean())))
    said, trees = np.full(len(rows), bias), []
    for _ in range(settings.trees):
        chance = 1 / (1 + np.exp(-said))
        tree = _Grower(binned, edges, chance - truth, chance * (1 - chance), settings, rng).grow()
        said += path_contributions(tree, rows).sum(1)
        trees.append(tree)
    return bias, tuple(trees)


def path_contributions(tree: Tree, rows: Floats) -> Floats:
    """What each column adds to each row on its way from the root, of shape rows; the sum is the leaf's value."""
    added = np.zeros(rows.shape)
    stack = [(0, np.arange(len(rows)))]
    while stack:
        node, here = stack.pop()
        column = tree.column[node]
        if column < 0 or not len(here):
            continue
        low = rows[here, column] <= tree.threshold[node]
        for child, there in ((tree.left[node], here[low]), (tree.right[node], here[~low])):
            added[there, column] += tree.value[child] - tree.value[node]
            stack.append((child, there))
    return added


class Forest:
    """Trees laid side by side, so that all of them are walked at once."""

    def __init__(self, trees: tuple[Tree, ...]) -> None:
        most = max((len(tree.column) for tree in trees), default=1)
        self._column, self._left, self._right = (
            np.array(
                [[*getattr(tree, part), *[-1] * (most - len(tree.column))] for tree in trees],
                dtype=np.int64,
            )
            for part in ("column", "left", "right")
        )
        self._threshold, self._value = (
            np.array([[*getattr(tree, part), *[0.0] * (most - len(tree.column))] for tree in trees])
            for part in ("threshold", "value")
        )

    def paths(self, rows: Floats) -> Floats:
        """What each column adds to each row in all trees, of shape rows."""
        added = np.zeros(rows.shape)
        row, tree = (each.ravel() for each in np.indices((len(rows), len(self._column))))
        node = np.zeros(len(row), dtype=np.int64)
        while len(row):
            column = self._column[tree, node]
            row, tree, node, column = (each[column >= 0] for each in (row, tree, node, column))
            low = rows[row, column] <= self._threshold[tree, node]
            child = np.where(low, self._left[tree, node], self._right[tree, node])
            np.add.at(added, (row, column), self._value[tree, child] - self._value[tree, node])
            node = child
        return added


class _Grower:
    """Grows one tree, the most gainful leaf first."""

    def __init__(
        self,
        binned: Bins,
        edges: list[Floats],
        slope: Floats,
        curve: Floats,
        settings: BoostingSettings,
        rng: np.random.Generator,
    ) -> None:
        self._binned, self._edges, self._slope, self._curve, self._set = (
            binned,
            edges,
            slope,
            curve,
            settings,
        )
        count = binned.shape[1]
        self._columns = np.sort(
            rng.choice(count, max(1, round(settings.columns * count)), replace=False)
        )
        self._sample = np.sort(
            rng.choice(len(binned), round(settings.rows * len(binned)), replace=False)
        )
        self._nodes: list[list[float]] = []

    def grow(self) -> Tree:
        leaves = [self._leaf(self._sample)]
        self._nodes[0][4] = 0.0  # what columns add on the way must sum to the leaf's step
        while len(leaves) < self._set.max_leaves:
            best = max(leaves, key=lambda leaf: leaf.gain)
            if best.gain <= 0:
                break
            leaves.remove(best)
            leaves += self._split(best)
        columns = zip(*self._nodes, strict=True)
        column, threshold, left, right, value = columns
        return Tree(
            column=tuple(int(each) for each in column),
            threshold=tuple(threshold),
            left=tuple(int(each) for each in left),
            right=tuple(int(each) for each in right),
            value=tuple(value),
        )

    def _split(self, leaf: Leaf) -> list[Leaf]:
        low = self._binned[leaf.rows, leaf.column] <= leaf.bin
        children = [self._leaf(leaf.rows[low]), self._leaf(leaf.rows[~low])]
        edge = float(self._edges[leaf.column][leaf.bin])
        self._nodes[leaf.node][:4] = [leaf.column, edge, children[0].node, children[1].node]
        return children

    def _leaf(self, rows: Bins) -> Leaf:
        step = -self._slope[rows].sum() / (self._curve[rows].sum() + self._set.ridge)
        self._nodes.append([-1.0, 0.0, -1.0, -1.0, float(step * self._set.rate)])
        gain, column, edge = self._best(rows)
        return Leaf(len(self._nodes) - 1, rows, gain, column, edge)

    def _best(self, rows: Bins) -> tuple[float, int, int]:
        """The split of greatest gain over all sampled columns and their bins, by running sums over histograms."""
        width = self._set.max_bins
        place = (
            self._binned[np.ix_(rows, self._columns)] + np.arange(len(self._columns)) * width
        ).ravel()
        shape = (len(self._columns), width)

        def sums(weight: Floats) -> Floats:
            spread = np.repeat(weight[rows], len(self._columns))
            total: Floats = np.bincount(place, spread, shape[0] * width).reshape(shape).cumsum(1)
            return total

        slope, curve, count = sums(self._slope), sums(self._curve), sums(np.ones(len(self._slope)))
        gain = self._worth(slope, curve) + self._worth(slope[:, -1:] - slope, curve[:, -1:] - curve)
        gain -= self._worth(slope[:, -1:], curve[:, -1:])
        least = min(self._set.min_rows_per_leaf, len(self._sample) // 10)
        small = (
            (count < least)
            | (count[:, -1:] - count < least)
            | (count == 0)
            | (count == count[:, -1:])
        )
        gain[small] = 0.0
        row, edge = np.unravel_index(int(gain.argmax()), shape)
        return float(gain[row, edge]), int(self._columns[row]), int(edge)

    def _worth(self, slope: Floats, curve: Floats) -> Floats:
        return slope**2 / (curve + self._set.ridge)


def _edges(column: Floats, bins: int) -> Floats:
    """Edges of at most `bins` bins: midway between values; where there are many, at even shares of the rows."""
    values = np.unique(column)
    middles = (values[1:] + values[:-1]) / 2
    if len(middles) < bins:
        return middles
    even: Floats = np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1]))
    return even
